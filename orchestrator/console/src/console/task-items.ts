// The items of a fleet, a hundred at a time.

import { find, make } from '../shared/dom';
import { duration, shortened, statusTone } from '../shared/format';
import { json, Refusal, segment } from '../shared/request';
import { badge, row } from '../shared/table';
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
  #next: number | undefined;
  #loading = 0;
  #shown = '';

  constructor(private readonly failed: Failed) {
    find('task-items-status').addEventListener('change', () => this.#go(undefined));
    find('task-items-first').addEventListener('click', () => this.#go(undefined));
    find('task-items-more').addEventListener('click', () => this.#next !== undefined && this.#go(this.#next));
  }

  clear(): void {
    this.#loading += 1;
    [this.#id, this.#after, this.#next, this.#shown] = ['', undefined, undefined, ''];
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
      find('task-items-rows').replaceChildren(...page.items.map((item) => this.#row(item)));
      find('task-items-table').hidden = page.items.length === 0;
      find('task-items-empty').hidden = page.items.length > 0;
      const last = page.items.at(-1);
      const first = page.items[0];
      find('task-items-count').textContent = first && last ? `Items ${first.index + 1} to ${last.index + 1} of ${(page.counts?.total ?? 0).toLocaleString()}` : '';
      find<HTMLButtonElement>('task-items-first').disabled = this.#after === undefined;
      find<HTMLButtonElement>('task-items-more').disabled = this.#next === undefined;
    } catch (error) {
      if (loading !== this.#loading) return;
      this.failed(error);
      if (error instanceof Refusal) find('task-items-problem').textContent = error.message;
    }
  }

  #row(item: TaskItem): HTMLElement {
    const result = item.error ? `${item.error.code}: ${item.error.message}` : item.output.length ? JSON.stringify(item.output) : '–';
    return row(
      {},
      ['Item', make('span', { class: 'number' }, String(item.index + 1))],
      ['Status', badge(item.status, statusTone(item.status))],
      ['Tries', String(item.attempts)],
      ['Duration', make('span', { class: 'number' }, item.executionTime ? duration(item.executionTime) : '–')],
      ['Inputs', make('span', { class: 'value' }, shortened(JSON.stringify(item.inputs), 200))],
      ['Result', make('span', { class: 'value' }, shortened(result, 300))],
    );
  }
}
