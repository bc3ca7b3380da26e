// What both kinds of picture have in common.

/** A picture that people can act on. */
export interface Picture {
  /** Bytes of the picture. */
  take(bytes: ArrayBuffer): void;
  /** Whether what is done to it is sent. */
  acting: boolean;
  /** A key went down or up. */
  key(event: KeyboardEvent, down: boolean): void;
  /** Text that no single key made. */
  text(text: string): void;
  /** Text that an input method is still at. */
  compose(text: string): void;
  /** Text from this machine's clipboard. */
  paste(text: string): void;
  /** Asks for what is selected. */
  copy(): void;
  /** A shortcut copied something: asks for it, where it does not come by itself. */
  copied?(): void;
  /** Takes back the touches under way, where the picture follows them itself. */
  cancelTouches?(): void;
  /** Releases all keys, of which no further event will come. */
  letGo(): void;
  close(): void;
}
