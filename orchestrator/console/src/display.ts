// A session with a display: noVNC, over the page's one websocket.

import RFB from '@novnc/novnc';
// @ts-expect-error noVNC keeps this for itself, and nothing else has it so complete.
import { getKeysym } from '../node_modules/@novnc/novnc/core/input/util.js';
import type { Connection } from './connection';
import type { Picture } from './picture';

const CONTROL_LEFT = 0xffe3;
const BACKSPACE = 0xff08;
const ENTER = 0xff0d;
const TAB = 0xff09;
const V = 0x76;
const C = 0x63;

/** The part of a WebSocket that noVNC uses. */
class Channel {
  binaryType = 'arraybuffer';
  protocol = '';
  readyState = 'open';
  onopen: ((event: unknown) => void) | null = null;
  onmessage: ((event: { data: ArrayBuffer }) => void) | null = null;
  onclose: ((event: { code: number; reason: string; wasClean: boolean }) => void) | null = null;
  onerror: ((event: unknown) => void) | null = null;
  send: (bytes: Uint8Array<ArrayBuffer>) => void;
  close: () => void;

  constructor(connection: Connection) {
    this.send = (bytes) => connection.sendBytes(bytes);
    this.close = () => {
      this.readyState = 'closed';
    };
  }
}

export class DisplayPicture implements Picture {
  readonly #rfb: RFB;
  readonly #channel: Channel;
  readonly #down = new Map<string, number>();

  /**
   * Chromium reads the keyboard's layout once: letters that the display's own layout lacks reach it only as text,
   * which `takesText` says that the daemon can give it.
   */
  constructor(
    screen: HTMLElement,
    private readonly connection: Connection,
    private readonly takesText: boolean,
    shown: () => void,
    copied: (text: string) => void,
  ) {
    this.#channel = new Channel(connection);
    const rfb = new RFB(screen, this.#channel, { shared: true });
    rfb.viewOnly = true;
    rfb.scaleViewport = true;
    rfb.resizeSession = false;
    // Keys are taken by the page itself, which knows about input methods.
    rfb.focusOnClick = false;
    rfb.showDotCursor = true;
    rfb.background = 'transparent';
    rfb.qualityLevel = 6;
    rfb.compressionLevel = 2;
    rfb.addEventListener('connect', shown);
    rfb.addEventListener('clipboard', (event) => copied((event as CustomEvent<{ text: string }>).detail.text));
    this.#rfb = rfb;
  }

  take(bytes: ArrayBuffer): void {
    this.#channel.onmessage?.({ data: bytes });
  }

  get acting(): boolean {
    return !this.#rfb.viewOnly;
  }

  set acting(acting: boolean) {
    if (this.#rfb.viewOnly === acting) this.#rfb.viewOnly = !acting;
    if (!acting) this.#down.clear();
  }

  key(event: KeyboardEvent, down: boolean): void {
    const code = event.code || event.key;
    if (!down) {
      const held = this.#down.get(code);
      this.#down.delete(code);
      if (held !== undefined) this.#rfb.sendKey(held, null, false);
      return;
    }
    const keysym = getKeysym(event) as number | null;
    // The character that it will make is the whole truth about AltGr.
    if (!keysym || event.key === 'AltGraph') return;
    // On Windows it comes with a Control that nobody pressed.
    if (event.getModifierState('AltGraph') && this.#down.has('ControlLeft')) {
      this.#rfb.sendKey(CONTROL_LEFT, null, false);
      this.#down.delete('ControlLeft');
    }
    if ([...event.key].length === 1 && this.#asText(event.key)) return this.#insert(event.key);
    this.#down.set(code, keysym);
    this.#rfb.sendKey(keysym, null, true);
  }

  text(text: string): void {
    if (this.#asText(text)) this.#insert(text);
    else for (const letter of text) this.#press(keysymOf(letter));
  }

  compose(): void {
    // A display knows finished text only.
  }

  paste(text: string): void {
    this.#rfb.clipboardPasteFrom(text);
    this.#withControl(V);
  }

  copy(): void {
    this.#withControl(C);
  }

  close(): void {
    this.#channel.readyState = 'closed';
    this.#channel.onclose?.({ code: 1000, reason: '', wasClean: true });
  }

  #asText(text: string): boolean {
    return this.takesText && /[^\x20-\x7e\r\n\t\b]/.test(text);
  }

  #insert(text: string): void {
    this.connection.send({ type: 'input', input: 'text', text });
  }

  #press(keysym: number): void {
    this.#rfb.sendKey(keysym, null, true);
    this.#rfb.sendKey(keysym, null, false);
  }

  #withControl(keysym: number): void {
    this.#rfb.sendKey(CONTROL_LEFT, null, true);
    this.#press(keysym);
    this.#rfb.sendKey(CONTROL_LEFT, null, false);
  }
}

function keysymOf(letter: string): number {
  const point = letter.codePointAt(0) ?? 0;
  if (letter === '\n' || letter === '\r') return ENTER;
  if (letter === '\b') return BACKSPACE;
  if (letter === '\t') return TAB;
  // Latin-1 is itself; everything else is its code point with a mark.
  return (point >= 0x20 && point <= 0x7e) || (point >= 0xa0 && point <= 0xff) ? point : 0x01000000 | point;
}
