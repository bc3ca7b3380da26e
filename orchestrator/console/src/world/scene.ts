// What the daemon says about the scene, followed until there is nothing more to say.

import type { Corners } from './perspective';
import type { Direction, Extent } from './view';

export type Kind = 'image' | 'video' | 'belonging';

/** What the visitor reads. */
export const KINDS: Record<Kind, string> = { image: 'Picture', video: 'Film', belonging: 'Keepsake' };

export interface Item extends Extent {
  kind: Kind;
  label: string;
  /** Where its picture is, if all of that is to be seen. */
  corners: Corners<Direction> | null;
  /** The name of the file that has its picture. */
  picture_url: string | null;
}

/** As the daemon lists it: something that found no place in the scene has no direction. */
export type ListedItem = Omit<Item, keyof Extent> & Partial<Extent>;

export function placed(items: readonly ListedItem[]): Item[] {
  const numbers = ['yaw', 'pitch', 'width', 'height'] as const;
  return items.filter((item): item is Item => numbers.every((name) => Number.isFinite(item[name])));
}

export interface Scene {
  status: 'queued' | 'rendering' | 'ready' | 'failed';
  /** From 0 to 1. */
  progress: number;
  environment_type: string;
  /** Which pictures there are. */
  preview: boolean;
  panorama: boolean;
  initial_yaw: number;
  watermark: boolean;
  items: ListedItem[];
  message: string | null;
}

export interface Listener {
  scene(scene: Scene): void;
  /** The connection is gone; another try follows. */
  lost(): void;
  /** The link is not valid any more. */
  gone(): void;
}

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 15_000;

/** Whether the scene stays as it is. */
function final(scene: Scene): boolean {
  return scene.status === 'failed' || (scene.status === 'ready' && scene.panorama);
}

export class Feed {
  #pause = FIRST_PAUSE;
  #events: EventSource | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #over = false;

  constructor(private readonly address: string, private readonly listener: Listener) {
    window.addEventListener('online', () => this.#timer && void this.start());
  }

  async start(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    try {
      const reply = await fetch(`${this.address}/scene.json`, { cache: 'no-store' });
      if ([401, 403, 404, 410].includes(reply.status)) {
        this.#over = true;
        return this.listener.gone();
      }
      if (!reply.ok) throw new Error(reply.statusText);
      this.#heard((await reply.json()) as Scene);
    } catch {
      return this.#lost();
    }
    if (!this.#over) this.#follow();
  }

  #follow(): void {
    const events = new EventSource(`${this.address}/events`);
    this.#events = events;
    events.addEventListener('scene', (event) => this.#heard(JSON.parse(event.data as string) as Scene));
    // Without a final scene before, it is the daemon that ended: ask again after a pause.
    events.addEventListener('end', () => this.#again());
    events.onerror = () => this.#lost();
  }

  #heard(scene: Scene): void {
    this.#pause = FIRST_PAUSE;
    if (final(scene)) {
      this.#over = true;
      this.#events?.close();
    }
    this.listener.scene(scene);
  }

  #lost(): void {
    this.listener.lost();
    this.#again();
  }

  #again(): void {
    this.#events?.close();
    if (this.#over) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.start(), this.#pause);
    this.#pause = Math.min(this.#pause * 1.6, LONGEST_PAUSE);
  }
}
