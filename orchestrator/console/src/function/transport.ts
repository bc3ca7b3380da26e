// Carries Puppeteer's messages to the daemon and back, without a network.

import type { ConnectionTransport } from 'puppeteer-core/internal/puppeteer-core-browser.js';

/** One connection of Puppeteer's to the browser: the daemon is between them. */
export class Transport implements ConnectionTransport {
  onmessage?: (message: string) => void;
  onclose?: () => void;
  #send: (message: string) => void;

  /** `send` is the binding to the daemon. */
  constructor(send: (message: string) => void) {
    this.#send = send;
  }

  send(message: string): void {
    // The code runs in the browser that it would close; the end of the call closes it.
    if (message.includes('"Browser.close"')) {
      const { id, method } = JSON.parse(message) as { id: number; method: string };
      if (method === 'Browser.close') {
        queueMicrotask(() => this.onmessage?.(JSON.stringify({ id, result: {} })));
        return;
      }
    }
    this.#send(message);
  }

  /** What the browser has sent, in its order. */
  receive(messages: string[]): void {
    for (const message of messages) this.onmessage?.(message);
  }

  close(): void {
    this.onclose?.();
  }
}
