// The description of the interface, for people. The keys that a user enters stay in this page's memory.

import { find, inline, make } from '../shared/dom';
import { counted } from '../shared/format';
import { write } from '../shared/list';
import { prepareContents } from '../site/contents';
import { CallView, type Reader } from './call';
import type { Language } from './examples';
import { type Call, callsOf, type Description, isSocket } from './openapi';
import { prose } from './prose';
import { Schemas } from './schema';

interface Entry {
  call: Call;
  fold: HTMLDetailsElement;
  link: HTMLElement;
  view?: CallView;
}

const language = find<HTMLSelectElement>('language');
const filter = find<HTMLInputElement>('filter');
let entries: Entry[] = [];

function refresh(): void {
  for (const { view } of entries) view?.refresh();
}

/** The heading of a call, which unfolds it. */
function draw(call: Call, reader: Reader): Entry {
  const { operation, method, path } = call;
  const id = operation.operationId;
  const verb = isSocket(call) ? 'WS' : method;
  const summary = make('summary', {}, make('span', { class: 'verb', 'data-verb': verb }, verb), make('code', {}, path), make('span', { class: 'about' }, ...inline(operation.summary)));
  const fold = make('details', { class: 'call', id }, summary);
  const entry: Entry = { call, fold, link: make('li', {}, make('a', { href: `#${id}` }, operation.summary.replaceAll('`', ''))) };
  fold.addEventListener('toggle', () => {
    if (!fold.open) return;
    if (!entry.view) {
      entry.view = new CallView(call, reader);
      fold.append(entry.view.element);
    }
    history.replaceState(null, '', `#${id}`);
  });
  return entry;
}

function print(description: Description): void {
  const reader: Reader = {
    schemas: new Schemas(description.components.schemas),
    base: description.servers[0]?.url ?? new URL('.', location.href).href,
    key: (kind) => find<HTMLInputElement>(`${kind}-key`).value.trim(),
    language: () => language.value as Language,
    choose: (chosen) => {
      language.value = chosen;
      refresh();
    },
  };
  find('about').replaceChildren(...prose(description.info.description));
  entries = callsOf(description).map((call) => draw(call, reader));
  const tags = description.tags.map(({ name, description: about }) => {
    const own = entries.filter(({ call }) => call.operation.tags.includes(name));
    const id = `tag-${name.toLowerCase().replaceAll(' ', '-')}`;
    const links = make('ul', {}, ...own.map(({ link }) => link));
    find('tags').append(make('li', { class: 'tag' }, make('details', {}, make('summary', {}, name), links)));
    return make('section', { class: 'calls', 'aria-labelledby': id }, make('h2', { id }, name), make('p', { class: 'hint' }, ...inline(about)), ...own.map(({ fold }) => fold));
  });
  find('calls').replaceChildren(...tags);
}

/** Hides the calls that do not match, and the headings that are left without any. */
function applyFilter(): void {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { call, fold, link } of entries) {
    const text = `${call.method} ${call.path} ${call.operation.summary} ${call.operation.operationId}`.toLowerCase();
    const fits = words.every((word) => text.includes(word));
    fold.hidden = link.hidden = !fits;
    shown += Number(fits);
  }
  for (const part of document.querySelectorAll<HTMLElement>('.calls, .tag')) {
    part.hidden = !part.querySelector(part.matches('.tag') ? 'li:not([hidden])' : '.call:not([hidden])');
  }
  for (const fold of document.querySelectorAll<HTMLDetailsElement>('.tag > details')) fold.open = words.length > 0;
  if (words.length) write(find('found'), counted(shown, 'call', 'calls'));
}

/** Unfolds the call that the address names. */
function reveal(): void {
  const found = entries.find(({ call }) => call.operation.operationId === location.hash.slice(1));
  if (!found) return;
  found.fold.open = true;
  found.fold.scrollIntoView();
}

prepareContents();
language.addEventListener('change', refresh);
filter.addEventListener('input', applyFilter);
window.addEventListener('hashchange', reveal);

try {
  const reply = await fetch('openapi.json');
  if (!reply.ok) throw new Error(`the daemon answered ${reply.status}`);
  print((await reply.json()) as Description);
  reveal();
} catch (error) {
  find('calls').replaceChildren();
  find('problem').textContent = `The description did not come: ${error instanceof Error ? error.message : String(error)}.`;
}
find('calls').removeAttribute('aria-busy');
