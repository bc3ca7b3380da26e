// One world, opened from a row of the log.

import { find, make, tell } from '../shared/dom';
import { openDialog } from '../shared/dialogs';
import { badge } from '../shared/table';
import { sentence } from '../shared/text';
import { api, type World } from './api';
import { WORLD_TONES } from './format';

/** Between two looks at a world that is being made. */
const LOOK = 2000;
const KINDS: Record<string, string> = { image: 'Picture', video: 'Film', belonging: 'Keepsake' };

export class WorldDialog {
  readonly #dialog = find<HTMLDialogElement>('world-dialog');
  #timer: ReturnType<typeof setTimeout> | undefined;
  #world = '';
  /** Which picture is shown, or on its way. */
  #shown = '';

  constructor(private readonly failed: (error: unknown) => void) {
    this.#dialog.addEventListener('close', () => {
      clearTimeout(this.#timer);
      this.#world = this.#shown = '';
    });
    const picture = find<HTMLImageElement>('world-picture');
    picture.addEventListener('error', () => (picture.hidden = true));
    picture.addEventListener('load', () => (picture.hidden = false));
  }

  open(world: string): void {
    this.#world = world;
    find<HTMLImageElement>('world-picture').hidden = true;
    find<HTMLImageElement>('world-picture').removeAttribute('src');
    find('world-title').textContent = 'World';
    find('world-facts').replaceChildren();
    find('world-items').replaceChildren();
    find('world-problem').textContent = '';
    find('world-open').hidden = find('world-closed').hidden = true;
    find('world-busy').hidden = false;
    openDialog('world-dialog');
    void this.#load(world);
  }

  async #load(id: string): Promise<void> {
    try {
      const world = await api.world(id);
      if (this.#world !== id) return;
      this.#print(world);
      if (world.status === 'queued' || world.status === 'rendering') this.#timer = setTimeout(() => void this.#load(id), LOOK);
    } catch (error) {
      if (this.#world !== id) return;
      this.failed(error);
      if (error instanceof Error) tell(find('world-problem'), error.message);
    }
    find('world-busy').hidden = true;
  }

  #print(world: World): void {
    const environment = world.environment_type ?? 'world';
    find('world-title').textContent = environment.charAt(0).toUpperCase() + environment.slice(1);
    const percent = world.status === 'rendering' && world.progress !== undefined ? ` ${Math.round(world.progress * 100)} %` : '';
    const facts: [string, Node | string][] = [
      ['Status', badge(`${world.status}${percent}`, WORLD_TONES[world.status])],
      ['Id', make('code', {}, world.world_id)],
    ];
    find('world-facts').replaceChildren(...facts.flatMap(([term, value]) => [make('dt', {}, term), make('dd', {}, value)]));
    find('world-problem').textContent = world.error?.message ? sentence(world.error.message) : '';
    find('world-closed').hidden = Boolean(world.viewer_url);
    const items = (world.items ?? []).map(({ kind, label }) =>
      make('li', {}, make('span', { class: 'kind' }, KINDS[kind] ?? kind), make('span', { class: 'name' }, label)),
    );
    find('world-items').replaceChildren(...(items.length ? items : [make('li', { class: 'none' }, 'None')]));
    const thumbnail = world.assets?.thumbnail_url;
    if (thumbnail && (world.status === 'ready' || world.status === 'rendering')) {
      // From the origin that this page came from: its policy allows no other.
      void this.#show(world.world_id, new URL(thumbnail, location.href).pathname, world.status);
    }
    const link = find<HTMLAnchorElement>('world-open');
    link.hidden = !world.viewer_url;
    if (world.viewer_url && /^https?:/.test(new URL(world.viewer_url, location.href).protocol)) link.href = world.viewer_url;
  }

  /** The finished world has another picture at the same address, so fetch it again. */
  async #show(world: string, path: string, status: string): Promise<void> {
    if (this.#shown === status) return;
    this.#shown = status;
    const reply = await fetch(path, { cache: 'no-store' }).catch(() => undefined);
    if (!reply?.ok || this.#world !== world) return;
    const picture = find<HTMLImageElement>('world-picture');
    URL.revokeObjectURL(picture.src);
    picture.src = URL.createObjectURL(await reply.blob());
  }
}
