// The one stream of events that an open console has.

import { follow, type ServerEvent } from '../shared/events';
import { Refusal, request } from '../shared/request';
import type { Topic } from './page';

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 10_000;
/** The daemon gives a sign of life every 15 seconds. */
const SILENCE = 40_000;

export class Stream {
  #open: AbortController | undefined;
  #topics: readonly Topic[] = [];
  #pause = FIRST_PAUSE;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #silent: ReturnType<typeof setTimeout> | undefined;

  /**
   * Calls `alive` for each sign of life, and `lost` for each failed attempt, with the refusal where that is one. A sign-in that
   * has ended calls `signedOut`, and ends the attempts.
   */
  constructor(
    private readonly heard: (event: ServerEvent) => void,
    private readonly alive: () => void,
    private readonly lost: (error?: Refusal) => void,
    private readonly signedOut: (error: Refusal) => void,
  ) {}

  /** Follows these topics from now on. */
  start(topics: readonly Topic[]): void {
    this.stop();
    this.#topics = topics;
    void this.#run();
  }

  stop(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#silent);
    this.#open?.abort();
    this.#open = undefined;
  }

  /** Tries again now, where it waits to. */
  hurry(): void {
    if (!this.#open && this.#timer) this.start(this.#topics);
  }

  async #run(): Promise<void> {
    const open = new AbortController();
    this.#open = open;
    const query = new URLSearchParams(this.#topics.map((topic) => ['topic', topic]));
    let refusal: Refusal | undefined;
    try {
      const init = { headers: { accept: 'text/event-stream' }, signal: open.signal };
      const reply = await request('GET', `console/api/events?${query}`, init);
      this.#alive();
      await follow(reply, (event) => {
        this.#pause = FIRST_PAUSE;
        if (!open.signal.aborted) this.heard(event);
      }, () => this.#alive());
    } catch (error) {
      if (open.signal.aborted) return;
      if (error instanceof Refusal) refusal = error;
      if (refusal?.status === 401) return this.signedOut(refusal);
    }
    if (open.signal.aborted) return;
    this.stop();
    this.lost(refusal);
    this.#timer = setTimeout(() => void this.#run(), this.#pause);
    this.#pause = Math.min(this.#pause * 1.6, LONGEST_PAUSE);
  }

  /** A connection that was cut without a word is not waited on for ever. */
  #alive(): void {
    this.alive();
    clearTimeout(this.#silent);
    this.#silent = setTimeout(() => {
      this.stop();
      this.lost();
      void this.#run();
    }, SILENCE);
  }
}
