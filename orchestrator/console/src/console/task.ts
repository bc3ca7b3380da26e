// One task: its work, its progress and its results.

import { Answers } from '../shared/answers';
import { find, inline, make, redraw, tell } from '../shared/dom';
import { follow, type ServerEvent } from '../shared/events';
import { duration, exactMoment, statusTone } from '../shared/format';
import { download, json, Refusal, request, segment } from '../shared/request';
import { badge, failureCode } from '../shared/table';
import { sentence } from '../shared/text';
import { keyNames } from './key-names';
import { labelList } from './labels';
import { outputTable } from './output';
import type { Failed, Page, Topic } from './page';
import { progressBar } from './progress';
import { browserName } from './session-record';
import { TaskArtifacts } from './task-artifacts';
import { TaskItems } from './task-items';
import { mayRetry, runs, type Task, taskName } from './task-record';
import { TaskSteps } from './task-steps';
import { cancel, remove, retry } from './tasks';

export class TaskPage implements Page {
  readonly topics: readonly Topic[] = ['tasks'];
  readonly title = 'Task';
  readonly #steps = new TaskSteps();
  readonly #items: TaskItems;
  readonly #artifacts: TaskArtifacts;
  #id = '';
  readonly #answers = new Answers();
  #task: Task | undefined;
  #live: AbortController | undefined;

  constructor(private readonly failed: Failed) {
    this.#items = new TaskItems(failed);
    this.#artifacts = new TaskArtifacts(failed);
    find('task-cancel').addEventListener('click', () => this.#task && cancel(this.#task, () => this.#load()));
    find('task-retry').addEventListener('click', () => this.#task && retry(this.#task));
    find('task-remove').addEventListener('click', () => this.#task && remove(this.#task));
    for (const format of ['csv', 'ndjson']) {
      find(`task-${format}`).addEventListener('click', () => void this.#save(format));
    }
  }

  show(id: string): void {
    this.#id = id;
    this.#task = undefined;
    find('task-body').hidden = true;
    find('task-problem').textContent = '';
    this.#steps.clear();
    this.#artifacts.clear();
    this.#items.clear();
    void this.#load();
    void this.#loadWork();
  }

  hide(): void {
    this.#id = '';
    this.rest();
    this.#artifacts.clear();
  }

  rest(): void {
    this.#live?.abort();
    this.#live = undefined;
  }

  heard({ type }: ServerEvent): void {
    if (type === 'hello') void this.#load();
    // While it runs, its own stream has more details.
    else if (type === 'tasks' && (!this.#live || this.#task?.items)) void this.#load();
  }

  #path(rest = ''): string {
    return `lam/tasks/${segment(this.#id)}${rest}`;
  }

  async #load(): Promise<void> {
    const [id, newest] = [this.#id, this.#answers.ask()];
    try {
      const task = await json<Task>('GET', this.#path());
      if (id !== this.#id || !newest()) return;
      find('task-problem').textContent = '';
      find('task-body').hidden = false;
      this.#print(task);
      if (runs(task) && !this.#live && !document.hidden) void this.#follow();
    } catch (error) {
      if (id !== this.#id || !newest()) return;
      this.failed(error);
      if (error instanceof Refusal && error.status !== 401) {
        find('task-body').hidden = true;
        tell(find('task-problem'), error.message);
      }
    }
  }

  async #loadWork(): Promise<void> {
    const id = this.#id;
    try {
      const { work } = await json<{ work: unknown }>('GET', this.#path('/order'));
      if (id === this.#id) this.#steps.work(work);
    } catch (error) {
      // The task's record has the error.
      if (!(error instanceof Refusal)) this.failed(error);
    }
  }

  /** Hears of each step, until the task ends. */
  async #follow(): Promise<void> {
    const live = new AbortController();
    this.#live = live;
    try {
      const reply = await request('GET', this.#path(), { headers: { accept: 'text/event-stream' }, signal: live.signal });
      await follow(reply, ({ type, data }) => {
        if (live.signal.aborted) return;
        if (type === 'progress') this.#steps.heard(JSON.parse(data));
        else if (type === 'task') this.#print(JSON.parse(data) as Task);
      });
    } catch (error) {
      if (live.signal.aborted) return;
      if (error instanceof Refusal) this.failed(error);
    }
    if (live.signal.aborted) return;
    this.#live = undefined;
    await this.#load();
  }

  #print(task: Task): void {
    this.#task = task;
    find('task-title').textContent = taskName(task);
    find('task-cancel').hidden = !runs(task);
    find('task-retry').hidden = !mayRetry(task);
    find('task-remove').hidden = runs(task);
    const problem = task.error ?? task.waiting;
    const shown = find('task-error');
    shown.hidden = !problem;
    const step = problem?.step === undefined ? '' : ` at step ${problem.step}`;
    shown.dataset['tone'] = task.error ? 'bad' : 'wait';
    if (problem) redraw(shown, [make('span', {}, make('b', {}, `${task.error ? 'It failed' : 'It waits'}${step}: `), task.error ? failureCode(problem.code) : make('code', {}, problem.code), ' ', ...inline(sentence(problem.message)))]);
    const progress = find('task-progress');
    progress.hidden = !task.items;
    if (task.items) redraw(progress, [progressBar(task.items)]);
    const facts: [string, Node | string | undefined][] = [
      ['Status', badge(task.status, statusTone(task.status))],
      ['Type', task.executionType],
      ['Id', make('code', {}, task.taskId)],
      ['Page', task.page],
      ['Browser', browserName({ browser_type: task.browserType, headless: task.headless })],
      ['Session', task.sessionId ? make('a', { href: `#/sessions/${segment(task.sessionId)}`, class: 'id' }, task.sessionId) : undefined],
      ['Key', keyNames.of(task.keyId)],
      ['End user', task.servicePasscode],
      ['Labels', labelList(task.metadata)[0]],
      ['Accepted', exactMoment(task.timestamp)],
      ['Began', task.startedAt === undefined ? undefined : exactMoment(task.startedAt)],
      ['Duration', task.endedAt === undefined ? undefined : duration(task.executionTime)],
      ['Inputs', Object.keys(task.inputs).length ? make('code', {}, JSON.stringify(task.inputs)) : undefined],
      ['Retries', task.retryOf ? make('a', { href: `#/tasks/${segment(task.retryOf)}`, class: 'id' }, task.retryOf) : undefined],
    ];
    const list = facts.filter((fact): fact is [string, Node | string] => fact[1] !== undefined);
    redraw(find('task-facts'), list.flatMap(([term, value]) => [make('dt', {}, term), make('dd', {}, value)]));
    this.#steps.print(task);
    this.#items.show(task);
    // Those of a fleet stand with its items.
    const rows = task.items ? [] : outputTable(task.output);
    const large = (task.outputBytes || task.items) && !rows.length;
    redraw(find('task-output'), rows.length ? rows : [make('p', { class: 'none' }, large ? 'Download all of them here.' : runs(task) ? 'None yet.' : 'None.')]);
    find('task-output-panel').hidden = task.items !== undefined && runs(task);
    this.#artifacts.show(task);
  }

  async #save(format: string): Promise<void> {
    try {
      await download(this.#path(`?format=${format}`), `${this.#id}.${format}`);
    } catch (error) {
      this.failed(error);
      if (error instanceof Error) tell(find('task-problem'), error.message);
    }
  }
}
