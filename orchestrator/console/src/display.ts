// A session with a display: noVNC, over the page's one websocket.

import RFB from '@novnc/novnc';
// @ts-expect-error noVNC keeps this for itself, and nothing else has it so complete.
import { getKeysym } from '../node_modules/@novnc/novnc/core/input/util.js';
import type { Connection } from './connection';
import type { Picture } from './picture';

const CONTROL_LEFT = 0xffe3;
/** Shift, Control, Caps Lock, Meta, Alt and Super, left and right. */
const MODIFIERS = { first: 0xffe1, last: 0xffec };
const EURO = 0x20ac;
const BACKSPACE = 0xff08;
const ENTER = 0xff0d;
const TAB = 0xff09;
const V = 0x76;
const C = 0x63;
/** RFB's message with a clipboard's text, and the flag by which its extended form says that the text is in it. */
const CUT_TEXT = 6;
const PROVIDED = 0x10;
/** How long the remote browser may take to ask for a text that is being pasted, in milliseconds. */
const PASTE_TIMEOUT = 400;

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

  constructor(connection: Connection, provided: () => void) {
    this.send = (bytes) => {
      connection.sendBytes(bytes);
      if (bytes[0] === CUT_TEXT && (bytes[8] ?? 0) & PROVIDED) provided();
    };
    this.close = () => {
      this.readyState = 'closed';
    };
  }
}

export class DisplayPicture implements Picture {
  readonly #rfb: RFB;
  readonly #channel: Channel;
  readonly #down = new Map<string, number>();
  /** What is to be done once the text that is being pasted has been fetched: it is one text at a time. */
  #later: (() => void)[] | undefined;
  #timer = 0;

  /**
   * The display's own layout has ASCII, and room for some twenty keys more. That is enough for what is on one keyboard of
   * Latin letters; all else comes as text: from the daemon where `takesText` says that it can give it, else pasted.
   * Chromium reads the layout only once, so to it all but ASCII is text.
   */
  constructor(
    private readonly screen: HTMLElement,
    private readonly connection: Connection,
    private readonly takesText: boolean,
    shown: () => void,
    copied: (text: string) => void,
  ) {
    this.#channel = new Channel(connection, () => this.#fetched());
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
    if (acting) return;
    this.#down.clear();
    this.#later = undefined;
  }

  key(event: KeyboardEvent, down: boolean): void {
    const code = event.code || event.key;
    if (!down) {
      const held = this.#down.get(code);
      this.#down.delete(code);
      if (held !== undefined) this.#send(held, false);
      return;
    }
    const keysym = getKeysym(event) as number | null;
    // The character that it will make is the whole truth about AltGr.
    if (!keysym || event.key === 'AltGraph') return;
    // On Windows it comes with a Control that nobody pressed.
    if (event.getModifierState('AltGraph') && this.#down.has('ControlLeft')) {
      this.#send(CONTROL_LEFT, false);
      this.#down.delete('ControlLeft');
    }
    if ([...event.key].length === 1 && this.#isText(event.key)) return this.#insert(event.key);
    this.#down.set(code, keysym);
    this.#send(keysym, true);
  }

  text(text: string): void {
    if (this.#isText(text)) this.#insert(text);
    else for (const letter of text) this.#press(keysymOf(letter));
  }

  compose(): void {
    // A display knows finished text only.
  }

  paste(text: string): void {
    this.#then(() => {
      // What is held down would make another shortcut of it.
      const held = [...this.#down.values()].filter((keysym) => keysym >= MODIFIERS.first && keysym <= MODIFIERS.last);
      this.#rfb.clipboardPasteFrom(text);
      for (const keysym of held) this.#send(keysym, false);
      this.#withControl(V);
      for (const keysym of held) this.#send(keysym, true);
      this.#later = [];
      this.#timer = window.setTimeout(() => this.#fetched(), PASTE_TIMEOUT);
    });
  }

  copy(): void {
    this.#withControl(C);
  }

  letGo(): void {
    for (const keysym of this.#down.values()) this.#send(keysym, false);
    this.#down.clear();
  }

  close(): void {
    this.#channel.readyState = 'closed';
    // noVNC takes its canvas away with it. A copy stays, as the last picture.
    const shown = this.screen.querySelector('canvas');
    const last = shown?.cloneNode() as HTMLCanvasElement | undefined;
    if (shown && shown.width > 0) last?.getContext('2d')?.drawImage(shown, 0, 0);
    this.#channel.onclose?.({ code: 1000, reason: '', wasClean: true });
    if (last) this.screen.replaceChildren(last);
  }

  #isText(text: string): boolean {
    return (this.takesText ? /[^\x20-\x7e\r\n\t\b]/ : /[^\x20-\x7e\xa0-\xff€\r\n\t\b]/).test(text);
  }

  #insert(text: string): void {
    if (this.takesText) this.connection.send({ type: 'input', input: 'text', text });
    else this.paste(text);
  }

  #fetched(): void {
    clearTimeout(this.#timer);
    const waited = this.#later ?? [];
    this.#later = undefined;
    for (const act of waited) this.#then(act);
  }

  /** Does something now, or in its turn. */
  #then(act: () => void): void {
    if (this.#later) this.#later.push(act);
    else act();
  }

  #send(keysym: number, down: boolean): void {
    this.#then(() => this.#rfb.sendKey(keysym, null, down));
  }

  #press(keysym: number): void {
    this.#send(keysym, true);
    this.#send(keysym, false);
  }

  #withControl(keysym: number): void {
    this.#send(CONTROL_LEFT, true);
    this.#press(keysym);
    this.#send(CONTROL_LEFT, false);
  }
}

function keysymOf(letter: string): number {
  if (letter === '\n' || letter === '\r') return ENTER;
  if (letter === '\b') return BACKSPACE;
  if (letter === '\t') return TAB;
  // Latin-1 is itself.
  return letter === '€' ? EURO : (letter.codePointAt(0) ?? 0);
}
