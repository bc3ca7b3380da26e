// The websocket: opened, and opened again when it broke, until there is no point in it any more.

import type { ClientMessage, ServerMessage } from './protocol';

/** Why nothing more will be shown. */
export interface End {
  state: 'ended' | 'failed' | 'denied';
  message: string;
  /** Whether the session has a recording that this viewer may fetch. */
  recording: boolean;
}

export interface Listener {
  received(message: ServerMessage): void;
  picture(bytes: ArrayBuffer): void;
  /** The connection is gone, or the session is `full`: it has as many viewers as it may have. Another try follows. */
  lost(full: boolean): void;
  over(end: End): void;
}

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 5000;
/** Between two looks whether the daemon has gone silent. */
const LOOK = 1000;

export class Connection {
  #socket: WebSocket | undefined;
  #pause = FIRST_PAUSE;
  #timer: ReturnType<typeof setTimeout> | undefined;
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
      const message = JSON.parse(data) as ServerMessage;
      if (message.type === 'ended') {
        this.#end({ ...message, state: message.status === 'failure' ? 'failed' : 'ended' });
      } else if (message.type === 'unshared') this.#end({ state: 'denied', message: 'This link has ended.', recording: false });
      else {
        if (message.type === 'hello') this.#silence = message.silence;
        this.listener.received(message);
      }
    };
    socket.onclose = () => {
      socket.onmessage = socket.onclose = null;
      socket.close();
      this.#socket = undefined;
      this.#retry(false);
    };
  }

  #retry(full: boolean): void {
    if (this.#over) return;
    this.listener.lost(full);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#again(), this.#pause);
    this.#pause = Math.min(this.#pause * 1.6, LONGEST_PAUSE);
  }

  send(message: ClientMessage): void {
    if (this.open) this.#socket?.send(JSON.stringify(message));
  }

  sendBytes(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.open) this.#socket?.send(bytes);
  }

  /** A websocket that does not open does not say why; this request does. */
  async #again(): Promise<void> {
    if (this.#over || this.#socket) return;
    try {
      const reply = await fetch(`stream/state?${this.#query}`, { cache: 'no-store' });
      // The page itself says how the session ended, or that its link did.
      if ([401, 403, 404].includes(reply.status)) return location.reload();
      if (reply.status === 429) {
        const { error } = (await reply.json()) as { error?: { code?: string } };
        if (error?.code === 'socket_limit' && !this.#socket) return this.#retry(true);
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
