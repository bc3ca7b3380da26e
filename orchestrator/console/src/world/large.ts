// A picture of the visitor's, opened large, with its name and something to talk about.

import { find } from '../shared/dom';
import { aboutItem, choose } from './prompts';
import { KINDS, type Item } from './scene';

export class Large {
  readonly #dialog = find<HTMLDialogElement>('large');
  readonly #image = find<HTMLImageElement>('large-image');
  #round = 0;

  constructor() {
    find('large-close').addEventListener('click', () => this.close());
    // Beside the picture and its words.
    this.#dialog.addEventListener('click', (event) => {
      if (!(event.target as Element).closest('img, header, footer')) this.close();
    });
    this.#dialog.addEventListener('close', () => this.#image.removeAttribute('src'));
  }

  contains(element: Element): boolean {
    return this.#dialog.contains(element);
  }

  show(item: Item, source: string): void {
    const [prompt] = choose(aboutItem(item.kind), this.#round, 1);
    this.#round += 1;
    this.#image.src = source;
    this.#image.alt = `${KINDS[item.kind] ?? 'Thing'}: ${item.label}`;
    find('large-frame').toggleAttribute('data-film', item.kind === 'video');
    find('large-kind').textContent = KINDS[item.kind] ?? '';
    find('large-title').textContent = item.label;
    find('large-prompt').textContent = prompt ?? '';
    this.#dialog.showModal();
  }

  close(): void {
    this.#dialog.close();
  }
}
