// Small pictures of sessions. The daemon sends those of the sessions that are on the screen, when they change.

import { make } from '../shared/dom';
import { follow } from '../shared/events';
import { request } from '../shared/request';

/** Rows come and go together; one request asks for them all. */
const PAUSE = 150;
/** Before another try, once the stream has ended. */
const RETRY = 3000;

interface Picture {
  session_id: string;
  jpeg: string;
}

export class Thumbnails {
  readonly #sessions = new Map<HTMLImageElement, string>();
  readonly #visible = new Set<HTMLImageElement>();
  readonly #watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.#visible.add(target as HTMLImageElement);
      else this.#visible.delete(target as HTMLImageElement);
    }
    this.#plan(PAUSE);
  });
  /** The last picture of each session on the screen, for rows that are redrawn. */
  #last = new Map<string, string>();
  #open: AbortController | undefined;
  #asked = '';
  #timer: ReturnType<typeof setTimeout> | undefined;
  #on = false;

  constructor() {
    document.addEventListener('visibilitychange', () => this.#plan(0));
  }

  /** A picture of a session: as it is, or as it was last. */
  image(session: string): HTMLImageElement {
    const image = make('img', { class: 'thumbnail', alt: '' });
    const last = this.#last.get(session);
    if (last) show(image, last);
    this.#sessions.set(image, session);
    this.#watch.observe(image);
    return image;
  }

  start(): void {
    this.#on = true;
    this.#plan(0);
  }

  stop(): void {
    this.#on = false;
    this.#plan(0);
  }

  #plan(pause: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), pause);
  }

  /** Follows the sessions that are on the screen now. */
  #ask(): void {
    this.#forget();
    const looks = this.#on && document.visibilityState === 'visible';
    const wanted = looks ? [...new Set([...this.#visible].map((image) => this.#sessions.get(image) ?? ''))].sort() : [];
    const query = new URLSearchParams(wanted.map((session) => ['session', session])).toString();
    if (query === this.#asked && (this.#open || query === '')) return;
    this.#asked = query;
    this.#open?.abort();
    this.#open = undefined;
    this.#last = new Map([...this.#last].filter(([session]) => wanted.includes(session)));
    if (query !== '') void this.#run(query);
  }

  async #run(query: string): Promise<void> {
    const open = new AbortController();
    this.#open = open;
    try {
      const init = { headers: { accept: 'text/event-stream' }, signal: open.signal };
      const reply = await request('GET', `console/api/thumbnails?${query}`, init);
      await follow(reply, ({ type, data }) => {
        if (type === 'thumbnail' && !open.signal.aborted) this.#show(JSON.parse(data) as Picture);
      });
    } catch {
      // The daemon is away, or as many pages follow as may: the page says so by its own stream.
    }
    if (open.signal.aborted) return;
    this.#open = undefined;
    this.#plan(RETRY);
  }

  #show({ session_id: session, jpeg }: Picture): void {
    const address = `data:image/jpeg;base64,${jpeg}`;
    this.#last.set(session, address);
    for (const [image, shown] of this.#sessions) {
      if (shown === session) show(image, address);
    }
  }

  /** Those whose rows were redrawn. */
  #forget(): void {
    for (const image of this.#sessions.keys()) {
      if (image.isConnected) continue;
      this.#watch.unobserve(image);
      this.#visible.delete(image);
      this.#sessions.delete(image);
    }
  }
}

/** The row shows that it has a picture, which few of the ended ones do. */
function show(image: HTMLImageElement, address: string): void {
  image.src = address;
  image.dataset['shown'] = 'true';
}
