// Labels of sessions and tasks: `metadata`.

import { make } from '../shared/dom';
import { shortened } from '../shared/format';

/** The longest label in a list; its page has all of it. */
export const IN_LIST = 28;

export type Labels = Record<string, string>;

/** Labels as they are shown, each up to this length; none where there are none. */
export function labelList(labels: Labels | undefined, most = Infinity): HTMLElement[] {
  const entries = Object.entries(labels ?? {});
  if (entries.length === 0) return [];
  const one = ([name, value]: [string, string]) => make('span', { class: 'label-tag', title: `${name}=${value}` }, shortened(`${name}=${value}`, most));
  return [make('span', { class: 'labels' }, ...entries.map(one))];
}

/** Labels as a person writes them, `team=search, env=test`: a comma parts two of them where another label follows. */
export function splitLabels(text: string): string[] {
  return text.split(/[,\n]\s*(?=[\w./-]+\s*=)/).map((label) => label.trim()).filter(Boolean);
}

/** Labels as they are sent. What is no label has no value, and the daemon says so. */
export function labelsOf(text: string): Labels {
  const pairs = splitLabels(text).map((label): [string, string] => {
    const [, name = label, value = ''] = /^([^=]*?)\s*=\s*(.*)$/s.exec(label) ?? [];
    return [name, value];
  });
  return Object.fromEntries(pairs);
}

/** The filter of a list, with one parameter for each label. */
export function spreadLabels(query: URLSearchParams): void {
  const labels = query.getAll('metadata[]').flatMap(splitLabels);
  query.delete('metadata[]');
  for (const label of labels) query.append('metadata[]', label);
}
