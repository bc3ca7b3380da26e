// Small pictures of sessions, asked for only while they are on the screen.

import { make } from '../shared/dom';
import { request, segment } from '../shared/request';

/** Between two looks at one session; the daemon takes no more either. */
const LOOK = 2500;
/** Pictures on their way at once: a browser keeps few connections to one host. */
const AT_ONCE = 3;

interface Shown {
  session: string;
  tag: string;
  due: number;
}

export class Thumbnails {
  readonly #shown = new Map<HTMLImageElement, Shown>();
  readonly #visible = new Set<HTMLImageElement>();
  readonly #watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.#visible.add(target as HTMLImageElement);
      else this.#visible.delete(target as HTMLImageElement);
    }
    this.#next();
  });
  #busy = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #on = false;

  /** A picture of a session that lives. */
  image(session: string): HTMLImageElement {
    const image = make('img', { class: 'thumbnail', alt: '' });
    this.#shown.set(image, { session, tag: '', due: 0 });
    this.#watch.observe(image);
    return image;
  }

  start(): void {
    this.#on = true;
    this.#next();
  }

  stop(): void {
    this.#on = false;
    clearTimeout(this.#timer);
  }

  #next(): void {
    clearTimeout(this.#timer);
    this.#forget();
    if (!this.#on || document.visibilityState !== 'visible') {
      if (this.#on) this.#timer = setTimeout(() => this.#next(), LOOK);
      return;
    }
    const now = Date.now();
    const wanted = [...this.#visible].map((image) => [image, this.#shown.get(image)] as const);
    for (const [image, shown] of wanted) {
      if (this.#busy >= AT_ONCE) break;
      if (shown && shown.due <= now) void this.#take(image, shown);
    }
    this.#timer = setTimeout(() => this.#next(), LOOK / 5);
  }

  async #take(image: HTMLImageElement, shown: Shown): Promise<void> {
    shown.due = Number.POSITIVE_INFINITY;
    this.#busy += 1;
    try {
      const init = shown.tag ? { headers: { 'if-none-match': shown.tag } } : {};
      const reply = await request('GET', `sessions/${segment(shown.session)}/thumbnail`, init);
      if (reply.status === 200 && this.#shown.has(image)) {
        const before = image.src;
        image.src = URL.createObjectURL(await reply.blob());
        if (before) URL.revokeObjectURL(before);
        shown.tag = reply.headers.get('etag') ?? '';
      }
    } catch {
      // It has ended, or the daemon is away: the list says so.
    } finally {
      this.#busy -= 1;
      shown.due = Date.now() + LOOK;
    }
  }

  /** Those whose rows were redrawn. */
  #forget(): void {
    for (const image of this.#shown.keys()) {
      if (image.isConnected) continue;
      this.#watch.unobserve(image);
      this.#visible.delete(image);
      this.#shown.delete(image);
      if (image.src) URL.revokeObjectURL(image.src);
    }
  }
}
