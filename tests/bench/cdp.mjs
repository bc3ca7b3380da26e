// The least one needs to speak DevTools: a websocket, and nothing between it and the figures.

import WebSocket from 'ws';
import { socketOf } from './ports.mjs';
import { until } from './stats.mjs';

export class Cdp {
  #last = 0;
  #waiting = new Map();
  #events = new Map();

  /** Connects to a browser's websocket. */
  static async connect(url) {
    const cdp = new Cdp();
    const socket = socketOf(url);
    const address = socket ? `ws+unix:${socket}:${new URL(url).pathname}` : url;
    cdp.socket = new WebSocket(address, { perMessageDeflate: false, maxPayload: 256 << 20 });
    await new Promise((open, failed) => cdp.socket.once('open', open).once('error', failed));
    cdp.socket.on('message', (data) => cdp.#take(data));
    cdp.socket.on('close', (code, reason) => {
      for (const { reject } of cdp.#waiting.values()) reject(new Error(`closed: ${code} ${reason}`));
    });
    return cdp;
  }

  #take(data) {
    const message = JSON.parse(data);
    this.#events.get(message.method)?.();
    const waiting = this.#waiting.get(message.id);
    if (!waiting) return;
    this.#waiting.delete(message.id);
    if (message.error) waiting.reject(new Error(message.error.message));
    else waiting.resolve(message.result);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = (this.#last += 1);
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    this.socket.send(JSON.stringify({ id, method, params, sessionId }));
    return answer;
  }

  /** Opens a blank page; `evaluate` speaks to it. */
  async openPage() {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    this.page = (await this.send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
    await this.send('Runtime.enable', {}, this.page);
  }

  /** The value of an expression in the page. */
  async evaluate(expression) {
    const { result } = await this.send('Runtime.evaluate', { expression, returnByValue: true }, this.page);
    return result.value;
  }

  /** Milliseconds that the page at an address took to load, as the page itself has them. Nobody polls meanwhile. */
  async load(url) {
    await this.send('Page.enable', {}, this.page);
    const loaded = new Promise((resolve) => this.#events.set('Page.loadEventFired', resolve));
    await this.send('Page.navigate', { url }, this.page);
    await loaded;
    const entry = `location.href === ${JSON.stringify(url)} && performance.getEntriesByType('navigation')[0].loadEventEnd`;
    return until('the page to load', 20, () => this.evaluate(entry), 5);
  }

  close() {
    this.socket.terminate();
  }
}
