// The items of a fleet, a hundred at a time. Their numbers are those of the API, from 0.

import { find, inline, make, redraw, tell } from '../shared/dom';
import { duration, shortened, statusTone } from '../shared/format';
import { json, Refusal, segment } from '../shared/request';
import { badge, failureCode, row } from '../shared/table';
import type { Failed } from './page';
import type { ItemCounts, Task, TaskItem } from './task-record';

const LIMIT = 100;

interface ItemPage {
  items: TaskItem[];
  next: number | null;
  counts: ItemCounts | null;
}

export class TaskItems {
  #id = '';
  #after: number | undefined;
  /** Where the pages before this one begin. */
  #before: (number | undefined)[] = [];
  #next: number | undefined;
  #loading = 0;
  #shown = '';

  constructor(private readonly failed: Failed) {
    find('task-items-status').addEventListener('change', () => {
      this.#before = [];
      this.#go(undefined);
    });
    find('task-items-previous').addEventListener('click', () => this.#go(this.#before.pop()));
    find('task-items-next').addEventListener('click', () => {
      if (this.#next !== undefined) {
        this.#before.push(this.#after);
        this.#go(this.#next);
      }
      // The page of the last click is still on its way, or did not come.
      else void this.#load();
    });
  }

  clear(): void {
    this.#loading += 1;
    [this.#id, this.#after, this.#next, this.#shown, this.#before] = ['', undefined, undefined, '', []];
    find('task-items-panel').hidden = true;
    find('task-items-rows').replaceChildren();
    find<HTMLSelectElement>('task-items-status').value = '';
  }

  show(task: Task): void {
    find('task-items-panel').hidden = !task.items;
    const text = JSON.stringify([task.taskId, task.items]);
    if (!task.items || text === this.#shown) return;
    this.#shown = text;
    this.#id = task.taskId;
    void this.#load();
  }

  #go(after: number | undefined): void {
    this.#after = after;
    this.#next = undefined;
    void this.#load();
  }

  async #load(): Promise<void> {
    const loading = ++this.#loading;
    const query = new URLSearchParams({ limit: String(LIMIT) });
    const status = find<HTMLSelectElement>('task-items-status').value;
    if (status) query.set('status', status);
    if (this.#after !== undefined) query.set('after', String(this.#after));
    try {
      const page = await json<ItemPage>('GET', `lam/tasks/${segment(this.#id)}/items?${query}`);
      if (loading !== this.#loading) return;
      this.#next = page.next ?? undefined;
      find('task-items-problem').textContent = '';
      redraw(find('task-items-rows'), page.items.map((item) => this.#row(item)));
      find('task-items-table').hidden = page.items.length === 0;
      find('task-items-empty').hidden = page.items.length > 0;
      const last = page.items.at(-1);
      const first = page.items[0];
      find('task-items-count').textContent = first && last ? `Items ${first.index} to ${last.index}; ${(page.counts?.total ?? 0).toLocaleString()} in all` : '';
      find<HTMLButtonElement>('task-items-previous').disabled = this.#after === undefined;
      find<HTMLButtonElement>('task-items-next').disabled = this.#next === undefined;
    } catch (error) {
      if (loading !== this.#loading) return;
      this.failed(error);
      if (error instanceof Refusal) tell(find('task-items-problem'), error.message);
    }
  }

  #row(item: TaskItem): HTMLElement {
    const result = item.error ? [failureCode(item.error.code), ' ', ...inline(shortened(item.error.message, 300))] : [shortened(item.output.length ? JSON.stringify(item.output) : '–', 300)];
    return row(
      {},
      ['Item', make('span', { class: 'number' }, String(item.index))],
      ['Status', badge(item.status, statusTone(item.status))],
      ['Tries', make('span', { class: 'number' }, String(item.attempts))],
      ['Duration', make('span', { class: 'number' }, item.executionTime ? duration(item.executionTime) : '–')],
      ['Inputs', make('span', { class: 'value' }, shortened(JSON.stringify(item.inputs), 200))],
      ['Result', make('span', { class: 'value' }, ...result)],
    );
  }
}
