// Rows of tables.

import { make } from './dom';

/** A table's row. On narrow screens each cell is a line of its own, with its heading from `data-label`. */
export function row(attributes: Record<string, string>, ...cells: [heading: string, content: Node | string][]): HTMLElement {
  const made = cells.map(([heading, content]) => {
    // Numbers stand below each other, and so does their heading.
    const numeric = content instanceof Element && content.classList.contains('number') ? { class: 'numeric' } : {};
    return make('td', { role: 'cell', 'data-label': heading, ...numeric }, content);
  });
  return make('tr', { role: 'row', ...attributes }, ...made);
}

/** The code of a failure, for those who look it up. */
export function failureCode(code: string): HTMLElement {
  return make('code', { class: 'failure' }, code);
}

export function badge(text: string, tone: string): HTMLElement {
  return make('span', { class: 'badge', 'data-tone': tone }, text);
}
