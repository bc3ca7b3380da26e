// The websocket: opened, and opened again when it broke, until there is no point in it any more.

import type { Said, Told } from './protocol';

/** Why there will be nothing more to see. */
export type End = { state: 'ended' | 'unknown' | 'denied'; message: string };

export interface Listener {
  told(message: Told): void;
  picture(bytes: ArrayBuffer): void;
  /** The connection is gone; another try follows. */
  lost(): void;
  over(end: End): void;
}

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 5000;
/** Between two looks whether the daemon has gone silent. */
const LOOK = 1000;

export class Connection {
  #socket: WebSocket | undefined;
  #pause = FIRST_PAUSE;
  #over = false;
  #heard = 0;
  /** Until the daemon has said how long it may be silent, a connection is given as long as it takes. */
  #silence = Infinity;
  readonly #query: string;

  constructor(token: string, actions: boolean, private readonly listener: Listener) {
    this.#query = new URLSearchParams({ token, enable_actions: String(actions) }).toString();
    // A phone closes sockets of pages nobody looks at: be back at once when somebody does.
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible' && !this.open) this.connect();
    });
    window.addEventListener('online', () => !this.open && this.connect());
    // What is between the two may let a connection die without telling either.
    setInterval(() => {
      if (this.open && performance.now() - this.#heard > this.#silence) this.#socket?.dispatchEvent(new Event('close'));
    }, LOOK);
  }

  get open(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  connect(): void {
    if (this.#over || this.#socket) return;
    // Relative, so that a proxy may serve this page below any path.
    const url = new URL(`stream/socket?${this.#query}`, location.href);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = new WebSocket(url);
    socket.binaryType = 'arraybuffer';
    this.#socket = socket;
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      this.#pause = FIRST_PAUSE;
      this.#heard = performance.now();
      if (typeof data !== 'string') return this.listener.picture(data);
      const message = JSON.parse(data) as Told;
      if (message.type === 'ended') this.#end({ state: 'ended', message: sentence(message.message) });
      else if (message.type === 'unshared') this.#end({ state: 'denied', message: 'This link has ended.' });
      else {
        if (message.type === 'hello') this.#silence = message.silence;
        this.listener.told(message);
      }
    };
    socket.onclose = () => {
      socket.onmessage = socket.onclose = null;
      socket.close();
      this.#socket = undefined;
      if (this.#over) return;
      this.listener.lost();
      setTimeout(() => void this.#again(), this.#pause);
      this.#pause = Math.min(this.#pause * 1.6, LONGEST_PAUSE);
    };
  }

  send(message: Said): void {
    if (this.open) this.#socket?.send(JSON.stringify(message));
  }

  sendBytes(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.open) this.#socket?.send(bytes);
  }

  /** A websocket that does not open does not say why: this does. */
  async #again(): Promise<void> {
    if (this.#over || this.#socket) return;
    try {
      const reply = await fetch(`stream/state?${this.#query}`, { cache: 'no-store' });
      if (reply.status === 404 || reply.status === 401 || reply.status === 403) {
        const { error } = (await reply.json()) as { error: { code: string; message: string } };
        const state = error.code === 'session_ended' ? 'ended' : error.code === 'unknown_session' ? 'unknown' : 'denied';
        return this.#end({ state, message: sentence(error.message) });
      }
    } catch {
      // Not reachable; the socket will not open either, and another try follows.
    }
    this.connect();
  }

  #end(end: End): void {
    if (this.#over) return;
    this.#over = true;
    this.#socket?.close();
    this.listener.over(end);
  }
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}
