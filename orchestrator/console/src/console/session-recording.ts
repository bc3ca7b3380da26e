// What was recorded of a session.

import { find, make, tell } from '../shared/dom';
import { bytes, duration, fileMoment, shortMoment } from '../shared/format';
import { download, json, Refusal, request, segment } from '../shared/request';
import { confirmAct } from '../shared/confirm';
import type { Failed } from './page';

interface Part {
  name: string;
  size: number;
  duration?: number;
  complete: boolean;
  started_at: number;
  stopped?: string;
}

export class SessionRecording {
  readonly #video = find<HTMLVideoElement>('session-video');
  /** The session on the page. An answer that is of another one shows nothing here. */
  #id = '';

  constructor(private readonly failed: Failed) {
    find('session-recording-delete').addEventListener('click', () => {
      const id = this.#id;
      confirmAct('Delete the recording?', 'All its parts are deleted. You cannot take this back.', 'Delete', async () => {
        await request('DELETE', path(id));
        if (id !== this.#id) return;
        this.#stop();
        await this.#load(id, false);
      });
    });
  }

  async show(id: string, recorded: boolean, live: boolean): Promise<void> {
    this.#id = id;
    find('session-recording').hidden = !recorded;
    if (recorded) await this.#load(id, live);
  }

  clear(): void {
    this.#id = '';
    this.#stop();
    find('session-recording-list').replaceChildren();
  }

  /** Takes the film away that is shown. */
  #stop(): void {
    if (this.#video.src) URL.revokeObjectURL(this.#video.src);
    this.#video.removeAttribute('src');
    this.#video.hidden = true;
  }

  async #load(id: string, live: boolean): Promise<void> {
    const problem = find('session-recording-problem');
    problem.textContent = '';
    try {
      const { parts } = await json<{ parts: Part[] }>('GET', path(id));
      if (id !== this.#id) return;
      find('session-recording-delete').hidden = live || parts.length === 0;
      const none = live ? 'It is being recorded.' : 'No recording was kept.';
      const rows = parts.map((part, at) => this.#row(id, part, parts.length > 1 ? at + 1 : undefined));
      find('session-recording-list').replaceChildren(...(rows.length ? rows : [make('li', { class: 'none' }, none)]));
    } catch (error) {
      this.failed(error);
      if (id === this.#id && error instanceof Refusal) tell(problem, error.message);
    }
  }

  /** A part, which the daemon names by its moment; its number where there are several. */
  #row(id: string, part: Part, number: number | undefined): HTMLElement {
    const began = part.started_at;
    const title = `${number ? `Part ${number}` : 'Recording'} from ${shortMoment(began)}`;
    const kind = part.name.split('.').at(-1) ?? '';
    const file = `warmpool ${fileMoment(began)}.${kind}`;
    const address = `${path(id)}/${segment(part.name)}`;
    const problem = find('session-recording-problem');
    const act = (label: string, wanted: () => Promise<void>) => {
      const button = make('button', { type: 'button', class: 'small' }, label, make('span', { class: 'unseen' }, ` ${title}`));
      button.addEventListener('click', async () => {
        button.disabled = true;
        problem.textContent = '';
        try {
          await wanted();
        } catch (error) {
          this.failed(error);
          if (id === this.#id && error instanceof Error) tell(problem, error.message);
        }
        button.disabled = false;
      });
      return button;
    };
    const length = part.duration === undefined ? [] : [duration(part.duration)];
    const notes = [kind === 'webm' ? 'WebM' : 'Matroska', bytes(part.size), ...length, ...(part.complete ? [] : ['goes on']), ...(part.stopped ? [`stopped: ${part.stopped}`] : [])].join(', ');
    const buttons = [act('Download', () => download(address, file))];
    if (part.name.endsWith('.webm')) {
      buttons.unshift(
        act('Watch', async () => {
          const film = await (await request('GET', address)).blob();
          if (id !== this.#id) return;
          this.#stop();
          this.#video.src = URL.createObjectURL(film);
          this.#video.hidden = false;
          this.#video.focus();
        }),
      );
    }
    return make('li', {}, make('span', { class: 'name' }, title, make('span', { class: 'note' }, notes)), ...buttons);
  }
}

function path(id: string): string {
  return `sessions/${segment(id)}/recording`;
}
