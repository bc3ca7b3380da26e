// The list of tasks.

import { make } from '../shared/dom';
import type { ServerEvent } from '../shared/events';
import { duration, exactMoment, shortMoment, shortened, statusTone } from '../shared/format';
import { List, type Meta } from '../shared/list';
import { json, segment } from '../shared/request';
import { badge, failureCode, row } from '../shared/table';
import { confirmAct } from '../shared/confirm';
import { keyCell } from './key-names';
import { IN_LIST, labelList, spreadLabels } from './labels';
import type { Failed, Page, Topic } from './page';
import { progressBar } from './progress';
import { browserName } from './session-record';
import { mayRetry, runs, type Task, taskName } from './task-record';

export class TasksPage implements Page {
  readonly topics: readonly Topic[] = ['tasks'];
  readonly title = 'Tasks';
  readonly #list: List<Task>;

  constructor(failed: Failed) {
    this.#list = new List<Task>({
      prefix: 'tasks',
      names: ['task', 'tasks'],
      empty: 'There is no task yet. Send one here, or let a program do it.',
      load: async (query) => {
        spreadLabels(query);
        const types = query.get('executionType')?.split(',') ?? [];
        query.delete('executionType');
        for (const type of types) query.append('executionType[]', type);
        const { tasks, meta } = await json<{ tasks: Task[]; meta: Meta }>('GET', `lam/tasks?${query}`);
        return { rows: tasks, meta };
      },
      key: (task) => task.taskId,
      draw: (task) => this.#row(task),
      failed,
    });
  }

  show(): void {
    void this.#list.load();
  }

  hide(): void {
    this.#list.clear();
  }

  heard({ type }: ServerEvent): void {
    if (type === 'tasks' || type === 'hello') void this.#list.refresh();
  }

  #row(task: Task): HTMLElement {
    const { taskId: id } = task;
    const name = taskName(task);
    const open = make('a', { href: `#/tasks/${segment(id)}`, 'data-focus': `${id} open`, title: name }, shortened(name, 90));
    const time = make('time', { datetime: new Date(task.timestamp).toISOString(), title: exactMoment(task.timestamp) }, shortMoment(task.timestamp));
    const problem = task.error ?? task.waiting;
    let act: Node | string = '';
    if (runs(task)) {
      act = make('button', { type: 'button', class: 'small', 'data-focus': `${id} cancel` }, 'Cancel', make('span', { class: 'unseen' }, ` ${name}`));
      act.addEventListener('click', () => cancel(task, () => this.#list.refresh()));
    } else if (mayRetry(task)) {
      act = make('button', { type: 'button', class: 'small', 'data-focus': `${id} retry` }, 'Retry', make('span', { class: 'unseen' }, ` ${name}`));
      act.addEventListener('click', () => retry(task));
    }
    const notes = [task.servicePasscode].filter((note): note is string => Boolean(note));
    return row(
      {},
      ['Task', make('span', { class: 'name' }, open, ...notes.map((note) => make('span', { class: 'note' }, shortened(note, 80))), ...labelList(task.metadata, IN_LIST))],
      ['Type', task.executionType],
      ['Status', make('span', {}, badge(task.status, statusTone(task.status)), make('span', { class: 'note', title: problem?.message ?? '' }, task.error ? failureCode(task.error.code) : (problem?.code ?? '')))],
      ['Browser', browserName({ browser_type: task.browserType, headless: task.headless })],
      ['Accepted', time],
      ['Duration', make('span', { class: 'number' }, task.endedAt === undefined ? '–' : duration(task.executionTime))],
      ['Items', task.items ? progressBar(task.items) : '–'],
      ['Key', keyCell(task.keyId)],
      ['', act],
    );
  }
}

/** Asks, and cancels a task. */
export function cancel(task: Task, then: () => unknown): void {
  confirmAct('Cancel the task?', `${taskName(task)} stops, and keeps the results that it has.`, 'Cancel the task', async () => {
    await json('DELETE', `lam/tasks/${segment(task.taskId)}`);
    await then();
  });
}

/** Asks, and removes a task that has ended. */
export function remove(task: Task): void {
  confirmAct('Delete the task?', `${taskName(task)} is deleted with its results and files. You cannot take this back.`, 'Delete', async () => {
    await json('DELETE', `lam/tasks/${segment(task.taskId)}?forget=true`);
    location.hash = '#/tasks';
  });
}

/** Asks, retries the failed work as a new task, and opens that. */
export function retry(task: Task): void {
  const what = task.items ? 'A new fleet does the items that have not succeeded.' : 'A new task does the same again.';
  confirmAct('Retry the task?', `${what} A task that needs secrets has to be sent anew, since secrets are not kept.`, 'Retry', async () => {
    const { taskId } = await json<Task>('POST', `lam/tasks/${segment(task.taskId)}/retry`, {});
    location.hash = `#/tasks/${segment(taskId)}`;
  });
}
