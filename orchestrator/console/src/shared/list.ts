// A list from the API: filtered by a form, in pages, and redrawn without losing the focus.

import { arrange, find, tell } from './dom';
import { watchFilters } from './filters';
import { counted } from './format';
import { Refusal } from './request';

export interface Meta {
  totalPages: number;
  totalRecords: number;
  currentPage: number;
}

export interface ListOptions<T> {
  /** Before the ids of its elements: `x-filters`, `x-rows`, `x-table`, `x-empty`, `x-problem`, `x-count`, … */
  prefix: string;
  /** The words for one row, and for several. */
  names: [one: string, many: string];
  /** The text for an empty list. */
  empty: string;
  load(query: URLSearchParams): Promise<{ rows: T[]; meta: Meta }>;
  /** Identifies a row. */
  key(row: T): string;
  draw(row: T): HTMLElement;
  failed(error: unknown): void;
}

export class List<T> {
  readonly #form: HTMLFormElement;
  readonly #rows: HTMLElement;
  readonly #cancel: () => void;
  #drawn = new Map<string, { text: string; element: HTMLElement }>();
  #page = 1;
  #pages = 1;
  #total = 0;
  #loading = 0;
  #again = false;

  constructor(private readonly options: ListOptions<T>) {
    this.#form = this.#find<HTMLFormElement>('filters');
    this.#rows = this.#find('rows');
    this.#cancel = watchFilters(this.#form, () => this.restart());
    this.#find('limit').addEventListener('change', () => this.restart());
    this.#find('previous').addEventListener('click', () => this.#turn(-1));
    this.#find('next').addEventListener('click', () => this.#turn(1));
  }

  /** From the first page on. */
  restart(): void {
    this.#cancel();
    this.#page = 1;
    void this.load();
  }

  /** Reloads the page. A request during a load waits until that has ended. */
  async refresh(): Promise<void> {
    if (this.#find('').hasAttribute('aria-busy')) {
      this.#again = true;
      return;
    }
    await this.load(true);
  }

  async load(quietly = false): Promise<void> {
    const loading = ++this.#loading;
    const section = this.#find('');
    section.setAttribute('aria-busy', quietly ? 'quiet' : 'true');
    try {
      const { rows, meta } = await this.options.load(this.#query());
      if (loading !== this.#loading) return;
      this.#pages = Math.max(1, meta.totalPages);
      this.#total = meta.totalRecords;
      if (this.#page > this.#pages) {
        // The last ones of this page have gone.
        this.#page = this.#pages;
        return void this.load(quietly);
      }
      this.#print(rows);
      write(this.#find('problem'), '');
      if (!quietly) write(this.#find('found'), counted(this.#total, ...this.options.names));
    } catch (error) {
      if (loading !== this.#loading) return;
      this.options.failed(error);
      if (error instanceof Refusal) {
        // Rows of another filter would mislead.
        [this.#page, this.#pages, this.#total] = [1, 1, 0];
        this.#print([]);
        tell(this.#find('problem'), error.message);
        this.#find('empty').hidden = true;
      }
    } finally {
      if (loading === this.#loading) {
        section.removeAttribute('aria-busy');
        if (this.#again) {
          this.#again = false;
          void this.load(true);
        }
      }
    }
  }

  clear(): void {
    this.#loading += 1;
    this.#again = false;
    this.#drawn.clear();
    this.#rows.replaceChildren();
    this.#find('').removeAttribute('aria-busy');
  }

  #turn(by: number): void {
    // The buttons know the pages of the last answer, and a second click may come before the next one.
    this.#page = Math.min(Math.max(1, this.#page + by), this.#pages);
    void this.load();
  }

  #query(): URLSearchParams {
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(this.#form)) {
      const text = String(value).trim();
      if (text) query.append(name, name.endsWith('_time') ? String(Date.parse(text)) : text);
    }
    query.set('page', String(this.#page));
    query.set('limit', this.#find<HTMLSelectElement>('limit').value);
    return query;
  }

  #print(rows: readonly T[]): void {
    const focused = document.activeElement?.closest('[data-focus]')?.getAttribute('data-focus');
    const inside = this.#rows.contains(document.activeElement);
    const drawn = new Map<string, { text: string; element: HTMLElement }>();
    for (const row of rows) {
      const [key, text] = [this.options.key(row), JSON.stringify(row)];
      const before = this.#drawn.get(key);
      drawn.set(key, before?.text === text ? before : { text, element: this.options.draw(row) });
    }
    this.#drawn = drawn;
    arrange(this.#rows, [...drawn.values()].map(({ element }) => element));
    if (inside && focused && !this.#rows.contains(document.activeElement)) {
      this.#rows.querySelector<HTMLElement>(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
    }
    const filtered = [...new FormData(this.#form)].some(([name, value]) => !name.startsWith('sort_') && String(value).trim() !== '');
    this.#find('table').hidden = rows.length === 0;
    this.#find('empty').hidden = rows.length > 0;
    write(this.#find('empty'), filtered ? `No ${this.options.names[0]} matches these filters.` : this.options.empty);
    this.#find<HTMLButtonElement>('previous').disabled = this.#page <= 1;
    this.#find<HTMLButtonElement>('next').disabled = this.#page >= this.#pages;
    write(this.#find('count'), `Page ${this.#page} of ${this.#pages} · ${counted(this.#total, ...this.options.names)}`);
  }

  #find<E extends HTMLElement = HTMLElement>(part: string): E {
    return find<E>(part ? `${this.options.prefix}-${part}` : this.options.prefix);
  }
}

/** A live region speaks when it is written to, even the same text. */
export function write(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
