// The things in the scene, as buttons that lie on them.

import { make } from '../shared/dom';
import type { Camera } from './camera';
import type { Screen } from './picture';
import { KINDS, type Item } from './scene';
import { closeUp, separation, type Size, type View } from './view';

/** An item further away than this angle is at the very edge of the screen, or behind. */
const ASIDE = 62;
const SMALLEST = 56;

export class Spots {
  #spots: { item: Item; button: HTMLButtonElement }[] = [];

  /** `open` shows an item's picture large. */
  constructor(
    private readonly list: HTMLElement,
    private readonly camera: Camera,
    private readonly size: () => Size,
    private readonly open: (item: Item) => void,
  ) {}

  set(items: readonly Item[]): void {
    const sorted = [...items].sort((a, b) => a.yaw - b.yaw);
    const same =
      sorted.length === this.#spots.length &&
      sorted.every((item, at) => JSON.stringify(item) === JSON.stringify(this.#spots[at]?.item));
    if (same) return;
    this.#spots = sorted.map((item) => {
      const name = `${KINDS[item.kind] ?? 'Thing'}: ${item.label}`;
      const button = make('button', { type: 'button', class: 'spot away', title: item.label, 'aria-label': name });
      if (item.picture_url) button.setAttribute('aria-haspopup', 'dialog');
      button.addEventListener('click', () => {
        this.camera.ease(closeUp(item, this.size()));
        if (item.picture_url) this.open(item);
      });
      button.addEventListener('focus', () => {
        // By keyboard: what has the focus must be seen.
        const { yaw, pitch } = item;
        if (button.matches(':focus-visible')) this.camera.ease({ yaw, pitch, angle: this.camera.view.angle });
      });
      return { item, button };
    });
    this.list.replaceChildren(...this.#spots.map(({ button }) => make('li', {}, button)));
  }

  get items(): Item[] {
    return this.#spots.map(({ item }) => item);
  }

  place(screen: Screen, view: View, size: Size): void {
    for (const { item, button } of this.#spots) {
      const at = (yaw: number, pitch: number) => screen.place({ yaw, pitch }, view, size);
      const [centre, left, right] = [at(item.yaw, item.pitch), at(item.yaw - item.width / 2, item.pitch), at(item.yaw + item.width / 2, item.pitch)];
      const [top, bottom] = [at(item.yaw, item.pitch + item.height / 2), at(item.yaw, item.pitch - item.height / 2)];
      const near = screen.flat || separation(item, view) < ASIDE;
      const inside = centre && centre.x > 0 && centre.x < size.width && centre.y > 0 && centre.y < size.height;
      const seen = near && inside && left && right && top && bottom;
      button.classList.toggle('away', !seen);
      if (!seen) {
        button.removeAttribute('style');
        continue;
      }
      const width = Math.max(SMALLEST, right.x - left.x + 12);
      const height = Math.max(SMALLEST, bottom.y - top.y + 12);
      button.style.width = `${width}px`;
      button.style.height = `${height}px`;
      button.style.transform = `translate(${centre.x - width / 2}px, ${(top.y + bottom.y) / 2 - height / 2}px)`;
    }
  }
}
