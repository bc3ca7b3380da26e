// Rows of tables.

import { make } from './dom';

/** A table's row. On narrow screens each cell is a line of its own, with its heading from `data-label`. */
export function row(attributes: Record<string, string>, ...cells: [heading: string, content: Node | string][]): HTMLElement {
  const made = cells.map(([heading, content]) => make('td', { role: 'cell', 'data-label': heading }, content));
  return make('tr', { role: 'row', ...attributes }, ...made);
}

export function badge(text: string, tone: string): HTMLElement {
  return make('span', { class: 'badge', 'data-tone': tone }, text);
}
