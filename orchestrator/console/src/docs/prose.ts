// Texts of the description as elements: paragraphs, lists, and `code`.

import { inline, make } from '../shared/dom';

export function prose(text: string): HTMLElement[] {
  const blocks: { list: boolean; lines: string[] }[] = [];
  for (const line of text.split('\n')) {
    const list = line.startsWith('- ');
    const last = blocks.at(-1);
    if (line.trim() === '') blocks.push({ list: false, lines: [] });
    else if (last && last.list === list) last.lines.push(line);
    else blocks.push({ list, lines: [line] });
  }
  return blocks
    .filter(({ lines }) => lines.length > 0)
    .map(({ list, lines }) => (list ? make('ul', { class: 'plain' }, ...lines.map((line) => make('li', {}, ...inline(line.slice(2))))) : make('p', { class: 'text' }, ...inline(lines.join(' ')))));
}
