// REST over connections that stay open, as a client in a hurry would do it.

import http from 'node:http';
import { socketOf } from './ports.mjs';

/** A caller of one service, with `headers` in every request. */
export class Api {
  #agent = new http.Agent({ keepAlive: true, maxSockets: 64 });

  constructor(base, headers = {}) {
    this.base = base;
    this.headers = headers;
  }

  /** Sends a request; answers {status, body} with the body parsed. */
  request(method, path, body) {
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const headers = { ...this.headers };
    if (payload) Object.assign(headers, { 'content-type': 'application/json', 'content-length': payload.length });
    const url = new URL(path, this.base);
    const options = { method, headers, agent: this.#agent, socketPath: socketOf(url) };
    return new Promise((resolve, reject) => {
      const request = http.request(url, options, (reply) => {
        const parts = [];
        reply.on('data', (part) => parts.push(part));
        reply.on('error', reject);
        reply.on('end', () => {
          const text = Buffer.concat(parts).toString();
          let parsed = text;
          try {
            parsed = JSON.parse(text);
          } catch {
            // Not every answer is JSON.
          }
          resolve({ status: reply.statusCode, body: parsed });
        });
      });
      request.on('error', reject);
      request.end(payload);
    });
  }

  /** Sends a request that must succeed; answers the body. */
  async ok(method, path, body) {
    const reply = await this.request(method, path, body);
    if (reply.status >= 400) throw new Error(`${method} ${path}: ${reply.status} ${JSON.stringify(reply.body)}`);
    return reply.body;
  }

  close() {
    this.#agent.destroy();
  }
}
