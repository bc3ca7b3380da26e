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

  /** Calls `lost` for each failed attempt, and `refused` for a refusal, which ends the attempts. */
  constructor(
    private readonly heard: (event: ServerEvent) => void,
    private readonly lost: () => void,
    private readonly refused: (error: Refusal) => void,
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
      // As many pages follow as may: one of them will go.
      if (error instanceof Refusal && error.code !== 'stream_limit') return this.refused(error);
    }
    if (open.signal.aborted) return;
    this.stop();
    this.lost();
    this.#timer = setTimeout(() => void this.#run(), this.#pause);
    this.#pause = Math.min(this.#pause * 1.6, LONGEST_PAUSE);
  }

  /** A connection that was cut without a word is not waited on for ever. */
  #alive(): void {
    clearTimeout(this.#silent);
    this.#silent = setTimeout(() => {
      this.stop();
      this.lost();
      void this.#run();
    }, SILENCE);
  }
}
