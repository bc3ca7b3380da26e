// The log of requests: filtered, page by page, or as they come in.

import { find, make, tell } from '../shared/dom';
import { follow } from '../shared/events';
import { watchFilters } from '../shared/filters';
import { counted, exactMoment, shortMoment } from '../shared/format';
import { write } from '../shared/list';
import { Refusal, request } from '../shared/request';
import { badge, row } from '../shared/table';
import { api, type IntegrationKey, type LoggedRequest } from './api';
import { type Filter, query, tone, WORLD_TONES } from './format';

/** With more than these, the oldest rows of the live log leave the page. */
const MOST_ROWS = 200;
/** Before a stream that ended is opened again. */
const RETURN = 1000;
/** Between two looks at worlds that are being made, and at how many. */
const LOOK = 3000;
const MOST_LOOKS = 10;

export class RequestLog {
  readonly #rows = find('world-log-rows');
  readonly #form = find<HTMLFormElement>('world-filters');
  readonly #live = find<HTMLInputElement>('world-log-live');
  readonly #cancel: () => void;
  #page = 1;
  #pages = 1;
  #total = 0;
  #stream: AbortController | undefined;
  #loading = 0;
  /** Where worlds are shown that are being made. */
  #pending = new Map<HTMLElement, string>();
  #looking: ReturnType<typeof setInterval> | undefined;

  constructor(private readonly failed: (error: unknown) => void, private readonly open: (world: string) => void) {
    this.#cancel = watchFilters(this.#form, () => this.#restart());
    find('world-log-limit').addEventListener('change', () => this.#restart());
    find('world-log-previous').addEventListener('click', () => this.#turn(-1));
    find('world-log-next').addEventListener('click', () => this.#turn(1));
    this.#live.addEventListener('change', () => {
      if (this.#live.checked || find('world-log').hasAttribute('aria-busy')) this.#restart();
      else this.#stop();
      this.#print();
    });
  }

  /** The keys that can be filtered by. */
  setKeys(keys: readonly IntegrationKey[]): void {
    const select = find<HTMLSelectElement>('world-filter-key');
    const chosen = select.value;
    const options = keys.map((key) => new Option(`${key.name} · ${key.key}`, key.key_id));
    select.replaceChildren(new Option('Any', ''), ...options);
    select.value = keys.some((key) => key.key_id === chosen) ? chosen : '';
  }

  async load(): Promise<void> {
    this.#stop();
    this.#looking ??= setInterval(() => void this.#look(), LOOK);
    const loading = ++this.#loading;
    find('world-log').setAttribute('aria-busy', 'true');
    try {
      const limit = Number(find<HTMLSelectElement>('world-log-limit').value);
      const live = this.#live.checked && this.#page === 1 && !document.hidden;
      // Opened first, so that no row is lost between the two.
      const early: LoggedRequest[] = [];
      const stream = live ? await this.#listen(early) : undefined;
      const { requests, meta } = await api.requests(query(this.#filter(), { page: this.#page, limit }));
      if (loading !== this.#loading) return;
      this.#pages = Math.max(1, meta.totalPages);
      this.#total = meta.totalRecords;
      this.#page = Math.min(meta.currentPage, this.#pages);
      this.#rows.replaceChildren(...requests.map((logged) => this.#row(logged)));
      const known = new Set(requests.map(identity));
      for (const logged of early) if (!known.has(identity(logged))) this.#add(logged);
      stream?.((logged) => this.#add(logged));
      write(find('world-log-problem'), '');
      write(find('world-log-found'), counted(this.#total, 'request', 'requests'));
    } catch (error) {
      if (loading !== this.#loading) return;
      this.#stop();
      this.failed(error);
      if (error instanceof Refusal) {
        // Rows of another filter would mislead.
        this.#rows.replaceChildren();
        [this.#page, this.#pages, this.#total] = [1, 1, 0];
        tell(find('world-log-problem'), error.message);
      } else this.#return(loading);
    } finally {
      if (loading === this.#loading) find('world-log').removeAttribute('aria-busy');
    }
    this.#print();
  }

  /** Nobody looks at it: its stream is closed until it is loaded again. */
  rest(): void {
    this.#loading += 1;
    this.#stop();
  }

  clear(): void {
    this.rest();
    clearInterval(this.#looking);
    this.#looking = undefined;
    this.#pending.clear();
    this.#rows.replaceChildren();
  }

  #restart(): void {
    this.#cancel();
    this.#page = 1;
    void this.load();
  }

  #turn(by: number): void {
    // The buttons know the pages of the last answer, and a second click may come before the next one.
    this.#page = Math.min(Math.max(1, this.#page + by), this.#pages);
    void this.load();
  }

  #filter(): Filter {
    return Object.fromEntries(new FormData(this.#form)) as unknown as Filter;
  }

  /** Collects rows into `early`, until the returned function names another taker. */
  async #listen(early: LoggedRequest[]): Promise<(take: (logged: LoggedRequest) => void) => void> {
    const stream = new AbortController();
    this.#stream = stream;
    const { signal } = stream;
    const reply = await request('GET', `v1/requests?${query(this.#filter(), undefined)}`, { headers: { accept: 'text/event-stream' }, signal });
    let take = (logged: LoggedRequest): void => {
      early.push(logged);
    };
    // A proxy may end the stream, or the daemon because it stops. Asking again shows which.
    const loading = this.#loading;
    const over = () => {
      if (signal.aborted) return;
      this.#stop();
      this.#print();
      this.#return(loading);
    };
    follow(reply, ({ type, data }) => {
      if (type === 'request' && !signal.aborted) take(JSON.parse(data) as LoggedRequest);
    }).then(over, over);
    return (taker) => (take = taker);
  }

  /** Loads the page again in a moment, unless another load has begun by then. */
  #return(loading: number): void {
    setTimeout(() => loading === this.#loading && void this.load(), RETURN);
  }

  #stop(): void {
    this.#stream?.abort();
    this.#stream = undefined;
  }

  #add(logged: LoggedRequest): void {
    const added = this.#row(logged, true);
    added.dataset['new'] = '';
    this.#rows.prepend(added);
    while (this.#rows.children.length > MOST_ROWS) this.#rows.lastElementChild?.remove();
    this.#total += 1;
    this.#print();
  }

  #print(): void {
    const none = this.#rows.children.length === 0;
    const filtered = [...query(this.#filter(), undefined)].length > 0;
    find('world-log-table').hidden = none;
    find('world-log-empty').hidden = !none || find('world-log-problem').textContent !== '';
    find('world-log-empty').textContent = filtered ? 'No request matches these filters.' : 'There is no request yet. Each one appears here, the failed ones too.';
    find<HTMLButtonElement>('world-log-previous').disabled = this.#page <= 1;
    find<HTMLButtonElement>('world-log-next').disabled = this.#page >= this.#pages;
    write(find('world-log-count'), `Page ${this.#page} of ${this.#pages} · ${counted(this.#total, 'request', 'requests')}`);
    const paused = this.#live.checked && this.#page > 1;
    find('world-live-state').dataset['tone'] = this.#stream ? 'good' : 'off';
    write(find('world-live-note'), paused ? 'New requests appear on the first page.' : '');
  }

  /** How far a request's world is: of one that came just now, the stream does not know. */
  #world({ world_id: id, world_status: status }: LoggedRequest, streamed: boolean): Node | string {
    if (!id) return '–';
    if (!status && !streamed) return make('span', { class: 'none' }, 'deleted');
    const shown = make('span', {}, status ? badge(status, WORLD_TONES[status]) : '…');
    if (status !== 'ready' && status !== 'failed') this.#pending.set(shown, id);
    return shown;
  }

  /** Looks again at the worlds of this page that are being made. */
  async #look(): Promise<void> {
    const pending = [...this.#pending].filter(([shown]) => shown.isConnected).slice(0, MOST_LOOKS);
    this.#pending = new Map(pending);
    if (document.visibilityState !== 'visible') return;
    for (const [shown, id] of pending) {
      try {
        const { status } = await api.world(id);
        shown.replaceChildren(badge(status, WORLD_TONES[status]));
        if (status === 'ready' || status === 'failed') this.#pending.delete(shown);
      } catch (error) {
        // Deleted meanwhile, or the daemon is away, which the page says.
        if (!(error instanceof Refusal)) return;
        shown.textContent = '–';
        this.#pending.delete(shown);
      }
    }
  }

  #row(logged: LoggedRequest, streamed = false): HTMLElement {
    const { world_id: world } = logged;
    let open: Node | string = '';
    if (world) {
      open = make('button', { type: 'button', class: 'small' }, 'Open', make('span', { class: 'unseen' }, ` the world of ${exactMoment(logged.timestamp)}`));
      open.addEventListener('click', () => this.open(world));
    }
    const patient = logged.patient_id ?? 'anonymous';
    return row(
      {},
      ['Time', make('time', { datetime: new Date(logged.timestamp).toISOString(), title: exactMoment(logged.timestamp) }, shortMoment(logged.timestamp))],
      ['Patient', make('span', logged.patient_id === null ? { class: 'none' } : { class: 'name' }, patient)],
      ['Environment', logged.environment_type ?? '–'],
      ['Content', make('span', { class: 'payload' }, logged.payload ?? '–')],
      ['Key', logged.key ? make('code', {}, logged.key) : '–'],
      ['Answer', badge(logged.status, tone(logged.status))],
      ['Latency', make('span', { class: 'number' }, logged.latency)],
      ['World', this.#world(logged, streamed)],
      ['', open],
    );
  }
}

/** Rows have no id of their own. */
function identity(logged: LoggedRequest): string {
  return JSON.stringify([logged.timestamp, logged.patient_id, logged.key, logged.status, logged.latency, logged.world_id]);
}
