// The name of the item in view: shown large, and read aloud on request.

import { find, make } from '../shared/dom';
import type { Item } from './scene';

/** So long the view must rest on something before it is named. */
const REST = 250;

export class Caption {
  readonly #line = find('caption');
  readonly #show = find<HTMLButtonElement>('captions');
  readonly #read = find<HTMLButtonElement>('read');
  #label = '';
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.#show.addEventListener('click', () => {
      toggle(this.#show);
      this.#print();
    });
    this.#read.hidden = !('speechSynthesis' in window);
    this.#read.addEventListener('click', () => {
      toggle(this.#read);
      if (pressed(this.#read)) this.#speak(this.#label || 'Reading aloud');
      else speechSynthesis.cancel();
    });
  }

  set(item: Item | undefined): void {
    const label = item?.label ?? '';
    clearTimeout(this.#timer);
    if (label === this.#label) return;
    this.#timer = setTimeout(() => {
      this.#label = label;
      this.#print();
      if (label && pressed(this.#read)) this.#speak(label);
    }, REST);
  }

  #print(): void {
    this.#line.replaceChildren(...(pressed(this.#show) && this.#label ? [make('span', {}, this.#label)] : []));
  }

  #speak(text: string): void {
    speechSynthesis.cancel();
    const spoken = new SpeechSynthesisUtterance(text);
    spoken.rate = 0.9;
    speechSynthesis.speak(spoken);
  }
}

function pressed(button: HTMLButtonElement): boolean {
  return button.getAttribute('aria-pressed') === 'true';
}

function toggle(button: HTMLButtonElement): void {
  button.setAttribute('aria-pressed', String(!pressed(button)));
}
