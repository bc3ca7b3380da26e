// The panel with questions for whoever sits beside the visitor.

import { find, make } from '../shared/dom';
import { aboutItem, aboutPlace, choose } from './prompts';
import type { Item } from './scene';

export class Questions {
  readonly #panel = find('questions');
  readonly #button = find('talk');
  #environment = '';
  #place = '';
  #item: Item | undefined;
  #round = 0;

  constructor() {
    this.#button.addEventListener('click', () => this.toggle(Boolean(this.#panel.hidden)));
    find('questions-close').addEventListener('click', () => this.toggle(false));
    find('questions-more').addEventListener('click', () => {
      this.#round += 1;
      this.#print();
    });
  }

  get open(): boolean {
    return !this.#panel.hidden;
  }

  toggle(open: boolean): void {
    if (!open && this.#panel.contains(document.activeElement)) this.#button.focus();
    this.#panel.hidden = !open;
    this.#button.setAttribute('aria-expanded', String(open));
    if (open) this.#panel.focus();
  }

  contains(element: Element): boolean {
    return this.#panel.contains(element);
  }

  setPlace(environment: string, place: string): void {
    if (environment === this.#environment) return;
    [this.#environment, this.#place] = [environment, place];
    this.#print();
  }

  setItem(item: Item | undefined): void {
    // Keep the last item, so that nothing moves while somebody reads.
    if (!item || item === this.#item) return;
    this.#item = item;
    this.#print();
  }

  #print(): void {
    const list = (questions: string[]) => questions.map((question) => make('li', {}, question));
    find('about-place-title').textContent = `About ${this.#place}`;
    find('place-list').replaceChildren(...list(choose(aboutPlace(this.#environment), this.#round, 3)));
    find('about-item').hidden = !this.#item;
    if (!this.#item) return;
    find('about-item-title').textContent = `About “${this.#item.label}”`;
    find('item-list').replaceChildren(...list(choose(aboutItem(this.#item.kind), this.#round, 2)));
  }
}
