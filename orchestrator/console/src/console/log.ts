// The last requests and events, followed as they come.

import { arrange, find, make, tell } from '../shared/dom';
import type { ServerEvent } from '../shared/events';
import { duration, exactMoment, shortMoment, shortened } from '../shared/format';
import { write } from '../shared/list';
import { json, Refusal, segment } from '../shared/request';
import { badge, failureCode, row } from '../shared/table';
import { keyNames } from './key-names';
import type { Failed, Page, Topic } from './page';

interface RequestEntry {
  at: number;
  id: string;
  method: string;
  route: string;
  session?: string;
  task?: string;
  key_id?: string;
  by?: 'key' | 'sign_in' | 'url';
  status: number;
  code?: string;
  micros: number;
}

interface LogLine {
  at: number;
  level: 'error' | 'warn' | 'info';
  message: string;
  fields: Record<string, string | number | boolean>;
}

type Entry = { kind: 'request'; at: number; tone: Tone; text: string; request: RequestEntry } | { kind: 'line'; at: number; tone: Tone; text: string; line: LogLine };
type Tone = 'good' | 'wait' | 'bad';

/** Rows that are drawn; the filters look at all that are kept. */
const MOST_ROWS = 300;
const BY = { key: 'key', sign_in: 'console', url: 'session URL' } as const;

export class LogPage implements Page {
  readonly topics: readonly Topic[] = ['log'];
  readonly title = 'Log';
  readonly #form = find<HTMLFormElement>('log-filters');
  readonly #live = find<HTMLInputElement>('log-live');
  #entries: Entry[] = [];
  /** For each load that has no answer yet, the earliest first, what was heard since it began: its answer may be older. */
  #loads: Entry[][] = [];
  #kept = 2000;
  #drawn = new Map<Entry, HTMLElement>();
  #drawing = 0;

  constructor(private readonly failed: Failed) {
    this.#form.addEventListener('submit', (event) => event.preventDefault());
    this.#form.addEventListener('input', () => this.#print());
    this.#form.addEventListener('reset', () => setTimeout(() => this.#print()));
    this.#live.addEventListener('change', () => {
      if (this.#live.checked) void this.#load();
      this.#state(this.#live.checked);
    });
  }

  show(): void {
    void this.#load();
  }

  hide(): void {
    this.#loads = [];
    this.#entries = [];
    this.#drawn.clear();
    find('log-rows').replaceChildren();
    this.#state(false);
  }

  heard({ type, data }: ServerEvent): void {
    if (type === 'hello') {
      this.#state(this.#live.checked);
      void this.#load();
    }
    if (!this.#live.checked) return;
    if (type === 'request') this.#add(ofRequest(JSON.parse(data) as RequestEntry));
    else if (type === 'line') this.#add(ofLine(JSON.parse(data) as LogLine));
    // They came faster than they could be shown.
    else if (type === 'missed') void this.#load();
  }

  async #load(): Promise<void> {
    const heard: Entry[] = [];
    this.#loads.push(heard);
    try {
      const { requests, lines, kept } = await json<{ requests: RequestEntry[]; lines: LogLine[]; kept: number }>('GET', 'console/api/log');
      const load = this.#loads.indexOf(heard);
      // The page was left, or a later load has its answer.
      if (load < 0) return;
      this.#loads.splice(0, load + 1);
      this.#kept = 2 * kept;
      const loaded = [...requests.map(ofRequest), ...lines.map(ofLine)];
      const known = new Set(loaded.map(identity));
      this.#entries = [...heard.filter((entry) => !known.has(identity(entry))), ...loaded].sort((a, b) => b.at - a.at);
      write(find('log-problem'), '');
      write(find('log-note'), `The last ${kept.toLocaleString()} requests are kept in memory. Reading by the console, probes and successful commands of drivers are left out.`);
      this.#print();
    } catch (error) {
      this.#loads = this.#loads.filter((load) => load !== heard);
      this.failed(error);
      if (error instanceof Refusal) tell(find('log-problem'), error.message);
    }
  }

  #add(entry: Entry): void {
    for (const heard of this.#loads) heard.push(entry);
    this.#entries.unshift(entry);
    if (this.#entries.length > this.#kept) this.#entries.pop();
    // Many at once are drawn together.
    if (!this.#drawing) {
      this.#drawing = requestAnimationFrame(() => {
        this.#drawing = 0;
        this.#print();
      });
    }
  }

  #state(live: boolean): void {
    find('log-live-state').dataset['tone'] = live ? 'good' : 'off';
  }

  #print(): void {
    const values = new FormData(this.#form);
    const [kind, outcome, text] = ['kind', 'outcome', 'text'].map((name) => String(values.get(name) ?? '').trim().toLowerCase());
    const found = this.#entries.filter(
      (entry) => (!kind || entry.kind === kind) && (!outcome || entry.tone === outcome) && (!text || entry.text.includes(text)),
    );
    this.#drawn = new Map(found.slice(0, MOST_ROWS).map((entry) => [entry, this.#drawn.get(entry) ?? draw(entry)]));
    arrange(find('log-rows'), [...this.#drawn.values()]);
    find('log-table').hidden = found.length === 0;
    find('log-empty').hidden = found.length > 0;
    find('log-empty').textContent = this.#entries.length ? 'Nothing matches these filters.' : 'Nothing here yet. Requests appear as they come.';
  }
}

function ofRequest(request: RequestEntry): Entry {
  const tone = request.status >= 500 ? 'bad' : request.status >= 400 ? 'wait' : 'good';
  return { kind: 'request', at: request.at, tone, request, text: `${JSON.stringify(request)} ${keyNames.of(request.key_id)}`.toLowerCase() };
}

function ofLine(line: LogLine): Entry {
  const tone = line.level === 'error' ? 'bad' : line.level === 'warn' ? 'wait' : 'good';
  return { kind: 'line', at: line.at, tone, line, text: JSON.stringify(line).toLowerCase() };
}

function identity(entry: Entry): string {
  return JSON.stringify(entry.kind === 'request' ? entry.request : entry.line);
}

function draw(entry: Entry): HTMLElement {
  const time = make('time', { datetime: new Date(entry.at).toISOString(), title: exactMoment(entry.at) }, shortMoment(entry.at));
  if (entry.kind === 'line') {
    const { line } = entry;
    const fields = Object.entries(line.fields).map(([name, value]) => make('span', { class: 'note' }, `${name} `, linked(name, String(value))));
    return row({}, ['Time', time], ['Who', make('span', { class: 'none' }, 'daemon')], ['What', make('span', { class: 'name' }, line.message, make('span', { class: 'fields' }, ...fields))], ['Outcome', badge(line.level, entry.tone)], ['Latency', make('span', { class: 'number' }, '–')]);
  }
  const { request } = entry;
  const names = [...(request.session ? [linked('session', request.session)] : []), ...(request.task ? [linked('task', request.task)] : [])];
  const who = request.key_id ? make('span', { class: 'name' }, keyNames.of(request.key_id), make('span', { class: 'note' }, request.by ? `by ${BY[request.by]}` : '')) : make('span', { class: 'none' }, 'nobody known');
  return row(
    {},
    ['Time', time],
    ['Who', who],
    ['What', make('span', { class: 'name' }, make('code', {}, `${request.method} ${request.route}`), ...names.map((name) => make('span', { class: 'note' }, name)))],
    ['Outcome', make('span', {}, badge(String(request.status), entry.tone), make('span', { class: 'note' }, ...(request.code ? [entry.tone === 'bad' ? failureCode(request.code) : make('code', {}, request.code)] : [])))],
    ['Latency', make('span', { class: 'number' }, duration(request.micros / 1000))],
  );
}

/** An id as a link to its page. */
function linked(name: string, id: string): Node | string {
  const pages: Record<string, string> = { session: 'sessions', task: 'tasks' };
  const page = pages[name];
  return page ? make('a', { href: `#/${page}/${segment(id)}`, class: 'id' }, shortened(id, 40)) : shortened(id, 200);
}
