// Results as a table.

import { make } from '../shared/dom';
import { shortened } from '../shared/format';

/** Rows that are drawn; all of them are in the files to download. */
const MOST_ROWS = 200;
const MOST_COLUMNS = 12;

const shown = (value: unknown): string => (typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value));

/** A table of results: objects fill a row, other values a single cell. */
export function outputTable(output: readonly unknown[]): HTMLElement[] {
  if (output.length === 0) return [];
  const rows = output.slice(0, MOST_ROWS);
  const names = new Set<string>();
  for (const row of rows) {
    if (row && typeof row === 'object' && !Array.isArray(row)) Object.keys(row).forEach((name) => names.add(name));
  }
  const columns = [...names].slice(0, MOST_COLUMNS);
  const cell = (value: unknown) => make('td', {}, make('span', { class: 'value' }, shortened(shown(value), 500)));
  const body = rows.map((row) => {
    if (!columns.length || !row || typeof row !== 'object' || Array.isArray(row)) return make('tr', {}, cell(row));
    return make('tr', {}, ...columns.map((name) => cell((row as Record<string, unknown>)[name])));
  });
  const head = columns.length ? [make('thead', {}, make('tr', {}, ...columns.map((name) => make('th', { scope: 'col' }, name))))] : [];
  const table = make('table', { class: 'output' }, ...head, make('tbody', {}, ...body));
  const more = output.length - rows.length;
  const note = more > 0 ? [make('p', { class: 'hint' }, `The first ${rows.length} of ${output.length} rows.`)] : [];
  return [make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Rows of results' }, table), ...note];
}
