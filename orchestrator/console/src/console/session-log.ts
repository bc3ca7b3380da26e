// What the pages of a session said, asked for and saved, followed as it happens.

import { arrange, find, make, tell } from '../shared/dom';
import { follow } from '../shared/events';
import { bytes, duration, exactMoment, shortMoment } from '../shared/format';
import { write } from '../shared/list';
import { download, json, Refusal, request, segment } from '../shared/request';
import { badge, row } from '../shared/table';
import { places, type LogEntry, tone } from './log-entry';
import type { Failed } from './page';
import { engineName, type SessionDetail } from './session-record';

interface SessionLogAnswer {
  entries: LogEntry[];
  dropped: number;
  left_out: string[];
}

/** Rows that are drawn; the filters look at all that are kept. */
const MOST_ROWS = 300;
/** Entries that the page keeps. */
const MOST = 5000;
/** Before the log is read again whose stream broke, in milliseconds. */
const RETRY = 3000;
const LEFT_OUT: Record<string, string> = { console: 'the console', page_error: 'page errors', request: 'requests' };

export class SessionLog {
  readonly #form = find<HTMLFormElement>('session-log-filters');
  #path = '';
  #entries: LogEntry[] = [];
  #following: AbortController | undefined;
  #drawn = new Map<LogEntry, HTMLElement>();
  #drawing = 0;

  constructor(private readonly failed: Failed) {
    this.#form.addEventListener('submit', (event) => event.preventDefault());
    this.#form.addEventListener('input', () => this.#print());
    this.#form.addEventListener('reset', () => setTimeout(() => this.#print()));
    find('session-har').addEventListener('click', () => void this.#try(() => download(`${this.#path}/har`, 'session.har')));
  }

  /** Shows the log of a session, if it keeps one, and follows it while the session lives. */
  async show(session: SessionDetail, live: boolean): Promise<void> {
    this.clear();
    find('session-log').hidden = !session.logs;
    this.#path = `sessions/${segment(session.session_id)}`;
    await this.resume(session, live);
  }

  /** Nobody looks at it. What it shows stays. */
  rest(): void {
    this.#following?.abort();
    this.#following = undefined;
  }

  /** Reads and follows the log of the session that it shows, where it rests and somebody looks. */
  async resume(session: SessionDetail, live: boolean): Promise<void> {
    if (!session.logs || this.#following || document.hidden) return;
    const { signal } = (this.#following = new AbortController());
    while (!signal.aborted) {
      const again = await this.#try(async () => {
        await this.#load(session, signal);
        if (live && !signal.aborted) await this.#follow(signal);
      }, signal);
      if (!live || !again) return;
      // The stream broke, or the daemon is away: one that was restarted counts anew, so all of it is read again.
      await new Promise((resolve) => setTimeout(resolve, RETRY));
    }
  }

  clear(): void {
    this.rest();
    this.#path = '';
    this.#entries = [];
    this.#drawn.clear();
    find('session-log-rows').replaceChildren();
    write(find('session-log-problem'), '');
    write(find('session-log-note'), '');
  }

  async #load(session: SessionDetail, signal: AbortSignal): Promise<void> {
    const { entries, dropped, left_out } = await json<SessionLogAnswer>('GET', `${this.#path}/logs`);
    if (signal.aborted) return;
    this.#entries = entries;
    const notes = [];
    if (left_out.length) notes.push(`${engineName(session.browser_type)} may not tell of ${left_out.map((name) => LEFT_OUT[name] ?? name).join(', ')}.`);
    if (dropped) notes.push(`${dropped.toLocaleString()} entries were too many to keep.`);
    write(find('session-log-note'), notes.join(' '));
    find('session-har').hidden = left_out.includes('request');
    this.#print();
  }

  /** Hears of each entry, until the stream ends. */
  async #follow(signal: AbortSignal): Promise<void> {
    const after = this.#entries.at(-1)?.seq ?? 0;
    const reply = await request('GET', `${this.#path}/logs?follow=true&after=${after}`, { headers: { accept: 'text/event-stream' }, signal });
    const heard = follow(reply, ({ type, data }) => {
      if (type === 'entry' && !signal.aborted) this.#add(JSON.parse(data) as LogEntry);
    });
    // A stream that breaks off has ended, too.
    await heard.catch(() => undefined);
  }

  #add(entry: LogEntry): void {
    this.#entries.push(entry);
    if (this.#entries.length > MOST) this.#entries.shift();
    // Many at once are drawn together.
    this.#drawing ||= requestAnimationFrame(() => {
      this.#drawing = 0;
      this.#print();
    });
  }

  #print(): void {
    const values = new FormData(this.#form);
    const [kind, outcome, text] = ['kind', 'tone', 'text'].map((name) => String(values.get(name) ?? '').trim().toLowerCase());
    const found = this.#entries.filter(
      (entry) => (!kind || entry.type === kind) && (!outcome || tone(entry) === outcome) && (!text || JSON.stringify(entry).toLowerCase().includes(text)),
    );
    this.#drawn = new Map(found.slice(-MOST_ROWS).reverse().map((entry) => [entry, this.#drawn.get(entry) ?? draw(entry)]));
    arrange(find('session-log-rows'), [...this.#drawn.values()]);
    find('session-log-table').hidden = found.length === 0;
    find('session-log-empty').hidden = found.length > 0;
    find('session-log-empty').textContent = this.#entries.length ? 'Nothing matches these filters.' : 'Nothing has happened yet.';
  }

  /** Returns whether it is worth another try: the daemon refused nothing, unless because it cannot serve now. */
  async #try(act: () => Promise<void>, signal?: AbortSignal): Promise<boolean> {
    const [problem, path] = [find('session-log-problem'), this.#path];
    write(problem, '');
    try {
      await act();
    } catch (error) {
      // Another session is shown by now, or none.
      if (signal?.aborted || path !== this.#path) return false;
      this.failed(error);
      if (error instanceof Refusal) {
        tell(problem, error.message);
        return error.status >= 500;
      }
    }
    return true;
  }
}

function draw(entry: LogEntry): HTMLElement {
  const time = make('time', { datetime: new Date(entry.time).toISOString(), title: exactMoment(entry.time) }, shortMoment(entry.time));
  const none = () => make('span', { class: 'number nothing' }, '–');
  const cells = (what: Node, outcome: string, took: Node = none(), size: Node = none()) =>
    row({}, ['Time', time], ['What', what], ['Outcome', badge(outcome, tone(entry))], ['Took', took], ['Size', size]);
  const name = (text: Node, ...notes: (string | undefined)[]) =>
    make('span', { class: 'name' }, text, ...notes.filter(Boolean).map((note) => make('span', { class: 'note' }, note ?? '')));
  switch (entry.type) {
    case 'console':
      return cells(name(make('span', { class: 'said' }, entry.text), places(entry)), entry.level);
    case 'page_error':
      return cells(name(make('span', { class: 'said' }, entry.text), places(entry)), 'page error');
    case 'request':
      return cells(
        name(make('code', {}, `${entry.method} ${entry.url}`), entry.resource, entry.failure),
        entry.status === undefined ? 'failed' : String(entry.status),
        make('span', { class: 'number' }, duration(entry.duration)),
        entry.bytes === undefined ? none() : make('span', { class: 'number' }, bytes(entry.bytes)),
      );
    case 'download':
      return cells(name(make('span', {}, entry.name), entry.url), 'download');
  }
}
