// The contents beside a page: open where there is room for them, folded where there is not.

import { find } from '../shared/dom';

const room = matchMedia('(min-width: 1000px)');

/** Follows the width of the window. */
export function prepareContents(): void {
  const contents = find<HTMLDetailsElement>('contents');
  const fit = () => (contents.open = room.matches);
  room.addEventListener('change', fit);
  fit();
  contents.addEventListener('click', (event) => {
    if (!room.matches && event.target instanceof HTMLAnchorElement) contents.open = false;
  });
  find('contents').querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' });
}
