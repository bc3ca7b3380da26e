// How far a fleet is.

import { make } from '../shared/dom';
import type { ItemCounts } from './task-record';

/** A bar of successes and failures, with the numbers as text. */
export function progressBar(items: ItemCounts): HTMLElement {
  const done = items.success + items.failure + items.cancelled;
  const words = `${done.toLocaleString()} of ${items.total.toLocaleString()}${items.failure ? `, ${items.failure.toLocaleString()} failed` : ''}`;
  const bar = make('span', { class: 'bar', 'aria-hidden': 'true' });
  for (const [tone, count] of [['good', items.success], ['bad', items.failure], ['off', items.cancelled], ['accent', items.running]] as const) {
    if (count === 0) continue;
    const part = make('span', { 'data-tone': tone });
    part.style.width = `${(100 * count) / Math.max(1, items.total)}%`;
    bar.append(part);
  }
  return make('span', { class: 'progress' }, bar, make('span', { class: 'note number' }, words));
}
