// Keys, input methods and the clipboard, from one hidden field: only a field brings up a phone's keyboard and lets an
// input method compose.

import type { Picture } from './picture';

/** The key by which one who has no mouse gets out of the picture. */
const LEAVE = 'F8';
/** Until the browser has done the copying that a shortcut asked for, in milliseconds. */
const COPIED = 150;

export class Keys {
  #composing = false;

  constructor(private readonly field: HTMLTextAreaElement, private readonly picture: () => Picture | undefined, leave: () => void) {
    field.addEventListener('keydown', (event) => {
      if (event.key === LEAVE) {
        event.preventDefault();
        return leave();
      }
      this.#key(event, true);
    });
    field.addEventListener('keyup', (event) => this.#key(event, false));
    field.addEventListener('compositionstart', () => {
      this.#composing = true;
    });
    field.addEventListener('compositionupdate', (event) => this.#acting()?.compose(event.data));
    field.addEventListener('compositionend', (event) => {
      this.#composing = false;
      const picture = this.#acting();
      picture?.compose('');
      if (event.data) picture?.text(event.data);
      field.value = '';
    });
    field.addEventListener('input', (event) => {
      if (this.#composing) return;
      const { inputType, data } = event as InputEvent;
      const picture = this.#acting();
      if (inputType === 'deleteContentBackward') this.#tap('Backspace', 8);
      else if (inputType === 'insertLineBreak') this.#tap('Enter', 13);
      else if (data && inputType !== 'insertCompositionText') picture?.text(data);
      // Something stays, so that a phone's keyboard has something to delete.
      field.value = ' ';
    });
    field.addEventListener('paste', (event) => {
      event.preventDefault();
      const text = event.clipboardData?.getData('text/plain');
      if (text) this.#acting()?.paste(text);
    });
  }

  focus(): void {
    this.field.focus({ preventScroll: true });
  }

  #acting(): Picture | undefined {
    const picture = this.picture();
    return picture?.acting ? picture : undefined;
  }

  #key(event: KeyboardEvent, down: boolean): void {
    // What an input method or a phone's keyboard is at comes as text.
    if (event.isComposing || event.keyCode === 229 || event.key === 'Unidentified' || event.key === 'Dead') return;
    const picture = this.#acting();
    if (!picture) return;
    const shortcut = (event.ctrlKey || event.metaKey) && !event.getModifierState('AltGraph');
    // Left to this browser, which answers with a paste event and the text.
    if (shortcut && event.code === 'KeyV') return;
    event.preventDefault();
    picture.key(event, down);
    if (shortcut && down && (event.code === 'KeyC' || event.code === 'KeyX')) setTimeout(() => picture.copied?.(), COPIED);
  }

  #tap(key: string, keyCode: number): void {
    const picture = this.#acting();
    for (const [kind, down] of [['keydown', true], ['keyup', false]] as const) {
      picture?.key(new KeyboardEvent(kind, { key, code: key, keyCode } as KeyboardEventInit), down);
    }
  }
}
