// Keys, input methods and the clipboard, from one hidden field: only a field brings up a phone's keyboard and lets an
// input method compose.

import type { Picture } from './picture';

/** The key by which one who has no mouse gets out of the picture. */
const LEAVE = 'F8';
/** Until the browser has done the copying that a shortcut asked for, in milliseconds. */
const COPY_DELAY = 150;
/** Apple's keyboards: Option makes letters, and Command is what Control is to the remote browser. */
const APPLE = /^(Mac|iP)/.test(navigator.platform);

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
    // Whatever takes the focus away, a switch to another window say, also takes what happens to the keys.
    field.addEventListener('blur', () => this.picture()?.letGo());
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
    if (APPLE && event.key === 'Alt') return;
    picture.key(APPLE ? translated(event) : event, down);
    // While Command is down, nothing is heard of a key that goes up.
    if (APPLE && event.metaKey && down && event.key !== 'Meta') picture.key(translated(event), false);
    if (shortcut && down && (event.code === 'KeyC' || event.code === 'KeyX')) setTimeout(() => picture.copied?.(), COPY_DELAY);
  }

  #tap(key: string, keyCode: number): void {
    const picture = this.#acting();
    for (const [kind, down] of [['keydown', true], ['keyup', false]] as const) {
      picture?.key(new KeyboardEvent(kind, { key, code: key, keyCode } as KeyboardEventInit), down);
    }
  }
}

/** A key of an Apple keyboard as that of another one. */
function translated(event: KeyboardEvent): KeyboardEvent {
  const command = event.key === 'Meta';
  const { repeat, location, shiftKey } = event;
  return new KeyboardEvent(event.type, {
    ...{ repeat, location, shiftKey, ctrlKey: event.ctrlKey || event.metaKey },
    key: command ? 'Control' : event.key,
    code: event.code.replace('Meta', 'Control'),
    keyCode: command ? 17 : event.keyCode,
  } as KeyboardEventInit);
}
