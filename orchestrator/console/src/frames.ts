// A session without a display: pictures of a tab on a canvas, and a pointer on them.

import type { Connection } from './connection';
import type { Picture } from './picture';
import type { Phase, Touch } from './protocol';

const HEADER = 12;
const BUTTONS = ['left', 'middle', 'right', 'back', 'forward'];
const DOUBLE_CLICK = 500;
/** Pixels of a line and of a page for wheels that count these. */
const LINE = 40;
const PAGE = 600;
/** How long a size must stay before it is reported, in milliseconds. */
const SETTLED = 200;

export class FramesPicture implements Picture {
  acting = false;
  readonly #canvas = document.createElement('canvas');
  readonly #context: CanvasRenderingContext2D | null;
  readonly #resized: ResizeObserver;
  #width = 1280;
  #height = 720;
  #top = 0;
  #newest: ArrayBuffer | undefined;
  /** The longer side of the picture on this screen, as the daemon knows it, in this screen's own pixels. */
  #side = 0;
  #timer = 0;
  #drawing = false;
  #closed = false;
  #move: (() => void) | undefined;
  #click = { at: 0, x: 0, y: 0, count: 0 };
  readonly #touches = new Map<number, Touch>();
  readonly #down = new Map<string, KeyboardEvent>();

  constructor(private readonly screen: HTMLElement, private readonly connection: Connection, private readonly shown: () => void) {
    this.#context = this.#canvas.getContext('2d', { alpha: false });
    this.#canvas.setAttribute('role', 'img');
    this.#canvas.setAttribute('aria-label', 'Picture of the remote browser');
    screen.replaceChildren(this.#canvas);
    this.#resized = new ResizeObserver(() => {
      this.#fit();
      this.#report();
    });
    this.#resized.observe(screen);
    const canvas = this.#canvas;
    canvas.addEventListener('pointerdown', (event) => this.#pointer(event, 'down'));
    canvas.addEventListener('pointermove', (event) => this.#pointer(event, 'move'));
    canvas.addEventListener('pointerup', (event) => this.#pointer(event, 'up'));
    canvas.addEventListener('pointercancel', (event) => this.#pointer(event, 'up'));
    canvas.addEventListener('wheel', (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener('contextmenu', (event) => this.acting && event.preventDefault());
  }

  take(bytes: ArrayBuffer): void {
    // A picture that will never be drawn is no longer under way either.
    if (this.#newest) this.connection.send({ type: 'ack' });
    this.#newest = bytes;
    if (!this.#drawing) void this.#draw();
  }

  async #draw(): Promise<void> {
    this.#drawing = true;
    for (let bytes = this.#newest; bytes; bytes = this.#newest) {
      this.#newest = undefined;
      try {
        const head = new DataView(bytes);
        const picture = await createImageBitmap(new Blob([new Uint8Array(bytes, HEADER)], { type: 'image/jpeg' }));
        // The page says by now that there is nothing more to see.
        if (this.#closed) return picture.close();
        this.#width = head.getUint16(4) || picture.width;
        this.#height = head.getUint16(6) || picture.height;
        this.#top = head.getUint32(8);
        if (this.#canvas.width !== picture.width || this.#canvas.height !== picture.height) {
          this.#canvas.width = picture.width;
          this.#canvas.height = picture.height;
          this.#fit();
        }
        this.#context?.drawImage(picture, 0, 0);
        picture.close();
        this.shown();
      } catch {
        // One picture that cannot be read: the next one will.
      }
      await seen();
      if (this.#closed) return;
      this.connection.send({ type: 'ack' });
    }
    this.#drawing = false;
  }

  /** As large as the page has room for, in the picture's own shape. */
  #fit(): void {
    const scale = Math.min(this.screen.clientWidth / this.#canvas.width, this.screen.clientHeight / this.#canvas.height);
    this.#canvas.style.width = `${Math.floor(this.#canvas.width * scale)}px`;
    this.#canvas.style.height = `${Math.floor(this.#canvas.height * scale)}px`;
  }

  /** Asks for pictures in the size in which they are shown, once that has settled. */
  #report(): void {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => {
      const side = Math.ceil(Math.max(this.screen.clientWidth, this.screen.clientHeight) * devicePixelRatio);
      if (side !== this.#side) this.connection.send({ type: 'view', side });
      this.#side = side;
    }, SETTLED);
  }

  /** A place on the canvas as a place on the remote page. */
  #place(event: { clientX: number; clientY: number }): { x: number; y: number } {
    const box = this.#canvas.getBoundingClientRect();
    const part = (at: number, from: number, length: number) => Math.min(Math.max((at - from) / length, 0), 1);
    return {
      x: Math.round(part(event.clientX, box.left, box.width) * this.#width * 10) / 10,
      y: Math.round(part(event.clientY, box.top, box.height) * this.#height * 10) / 10 - this.#top,
    };
  }

  #pointer(event: PointerEvent, phase: Phase): void {
    if (!this.acting) return;
    event.preventDefault();
    if (phase === 'down') this.#canvas.setPointerCapture(event.pointerId);
    const send = event.pointerType === 'touch' ? this.#touch(event, phase) : this.#mouse(event, phase);
    if (!send) return;
    // Moves are as many as there are pictures to see them on; what follows a move never overtakes it.
    if (phase === 'move') {
      if (!this.#move) requestAnimationFrame(() => this.#flush());
      this.#move = send;
      return;
    }
    this.#flush();
    send();
  }

  #flush(): void {
    const send = this.#move;
    this.#move = undefined;
    send?.();
  }

  #mouse(event: PointerEvent, phase: Phase): () => void {
    const place = this.#place(event);
    if (phase === 'down') {
      const last = this.#click;
      const again = event.timeStamp - last.at < DOUBLE_CLICK && Math.hypot(place.x - last.x, place.y - last.y) < 5;
      this.#click = { at: event.timeStamp, ...place, count: again ? last.count + 1 : 1 };
    }
    const button = phase === 'move' ? held(event.buttons) : (BUTTONS[event.button] ?? 'none');
    const clicks = phase === 'move' ? 0 : this.#click.count;
    const [buttons, modifiers] = [event.buttons, modifiersOf(event)];
    return () => this.connection.send({ type: 'input', input: 'mouse', phase, ...place, button, buttons, clicks, modifiers });
  }

  #touch(event: PointerEvent, phase: Phase): (() => void) | undefined {
    const id = event.pointerId % 1000;
    if (phase !== 'down' && !this.#touches.has(id)) return undefined;
    if (phase === 'up') this.#touches.delete(id);
    else this.#touches.set(id, { id, ...this.#place(event) });
    const touches = [...this.#touches.values()];
    // Of several fingers only the last one ends the gesture.
    if (phase === 'up' && touches.length > 0) return undefined;
    return () => this.connection.send({ type: 'input', input: 'touch', phase, touches, modifiers: 0 });
  }

  #wheel(event: WheelEvent): void {
    if (!this.acting) return;
    event.preventDefault();
    const unit = [1, LINE, PAGE][event.deltaMode] ?? 1;
    const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
    this.connection.send({ type: 'input', input: 'wheel', ...this.#place(event), dx, dy, modifiers: modifiersOf(event) });
  }

  key(event: KeyboardEvent, down: boolean): void {
    if (down) this.#down.set(event.code, event);
    else this.#down.delete(event.code);
    const graph = event.getModifierState('AltGraph');
    const plain = graph || !(event.ctrlKey || event.metaKey || event.altKey);
    const text = event.key === 'Enter' ? '\r' : plain && [...event.key].length === 1 ? event.key : '';
    this.connection.send({
      ...{ type: 'input', input: 'key', down, key: event.key, code: event.code, key_code: event.keyCode },
      ...{ text, repeat: event.repeat, location: event.location },
      modifiers: graph ? modifiersOf(event) & 8 : modifiersOf(event),
    });
  }

  text(text: string): void {
    this.connection.send({ type: 'input', input: 'text', text });
  }

  compose(text: string): void {
    this.connection.send({ type: 'input', input: 'compose', text });
  }

  paste(text: string): void {
    this.text(text);
  }

  copy(): void {
    this.connection.send({ type: 'copy' });
  }

  copied(): void {
    this.copy();
  }

  letGo(): void {
    for (const event of [...this.#down.values()]) this.key(event, false);
  }

  cancelTouches(): void {
    if (this.#touches.size === 0) return;
    this.#touches.clear();
    this.#move = undefined;
    this.connection.send({ type: 'input', input: 'touch', phase: 'cancel', touches: [], modifiers: 0 });
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#resized.disconnect();
  }
}

/** Waits until somebody looks at the page: until then it wants no more pictures. */
async function seen(): Promise<void> {
  while (document.hidden) await new Promise((resolve) => document.addEventListener('visibilitychange', resolve, { once: true }));
}

function held(buttons: number): string {
  return buttons & 1 ? 'left' : buttons & 2 ? 'right' : buttons & 4 ? 'middle' : 'none';
}

/** The bits that the browser's own protocol counts. */
function modifiersOf(event: MouseEvent | KeyboardEvent): number {
  return (event.altKey ? 1 : 0) | (event.ctrlKey ? 2 : 0) | (event.metaKey ? 4 : 0) | (event.shiftKey ? 8 : 0);
}
