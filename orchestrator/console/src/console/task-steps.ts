// The steps of a task: those of its recording, with their times, as they are done. Their numbers are those of the API, from 0.

import { find, make, redraw } from '../shared/dom';
import { duration, shortened } from '../shared/format';
import { runs, type Task } from './task-record';

interface Step {
  type?: string;
  name?: string;
  url?: string;
  value?: string;
  key?: string;
  selectors?: unknown;
}

type Progress =
  | { type: 'step_started'; step: number; steps: number; kind: string; item?: number }
  | { type: 'step_finished'; step: number; ms: number; item?: number }
  | { type: 'rows'; rows: number; pages: number; item?: number }
  | { type: 'warning'; message: string; item?: number };

const MOST_STEPS = 500;
const MOST_TEXT = 200_000;

const count = (steps: number): string => `${steps.toLocaleString()} ${steps === 1 ? 'step' : 'steps'}`;

/** What a step does, in a few words. */
export function describe(step: Step): string {
  const selector = Array.isArray(step.selectors) ? step.selectors.flat()[0] : step.selectors;
  const about = step.url ?? (typeof selector === 'string' ? selector : undefined) ?? step.key;
  const name = step.type === 'customStep' ? (step.name ?? 'customStep') : (step.type ?? 'step');
  return about === undefined ? name : `${name} ${shortened(about, 120)}`;
}

export class TaskSteps {
  #steps: Step[] = [];
  #times = new Map<number, number>();
  #current: number | undefined;
  #task: Task | undefined;

  clear(): void {
    [this.#steps, this.#times, this.#current, this.#task] = [[], new Map(), undefined, undefined];
    find('task-steps').replaceChildren();
    find('task-live').textContent = '';
    find('task-work-text').textContent = '';
    find<HTMLDetailsElement>('task-work').open = false;
  }

  /** The work as it was sent. */
  work(work: unknown): void {
    const inner = work as { recording?: { steps?: Step[] }; steps?: Step[] } | undefined;
    this.#steps = inner?.recording?.steps ?? inner?.steps ?? [];
    find('task-work-text').textContent = shortened(JSON.stringify(work, null, 2), MOST_TEXT);
    this.#draw();
  }

  print(task: Task): void {
    this.#task = task;
    task.stepTimes?.forEach((ms, step) => this.#times.set(step, ms));
    if (!runs(task)) {
      this.#current = undefined;
      find('task-live').textContent = '';
    }
    this.#draw();
  }

  heard(progress: Progress): void {
    const live = find('task-live');
    const item = progress.item === undefined ? '' : `Item ${progress.item}: `;
    if (progress.type === 'step_started') {
      live.textContent = `${item}step ${progress.step}, ${progress.kind} (of ${count(progress.steps)})`;
      if (progress.item === undefined) this.#current = progress.step;
    } else if (progress.type === 'step_finished') {
      if (progress.item === undefined) {
        this.#times.set(progress.step, progress.ms);
        this.#current = undefined;
      }
    } else if (progress.type === 'rows') live.textContent = `${item}${progress.rows} rows from ${progress.pages} pages`;
    else live.textContent = `${item}${progress.message}`;
    this.#draw();
  }

  #draw(): void {
    const failed = this.#task?.error?.step;
    const fleet = this.#task?.items !== undefined;
    redraw(
      find('task-steps'),
      this.#steps.slice(0, MOST_STEPS).map((step, at) => {
        const ms = this.#times.get(at);
        const state = failed === at ? 'bad' : ms !== undefined ? 'good' : this.#current === at ? 'accent' : 'off';
        const note = failed === at ? 'failed' : ms !== undefined ? duration(ms) : this.#current === at ? 'now' : '';
        return make('li', { 'data-tone': fleet ? 'off' : state }, make('span', { class: 'value' }, describe(step)), make('span', { class: 'note number' }, fleet ? '' : note));
      }),
    );
    find('task-steps').hidden = this.#steps.length === 0;
    find('task-steps-title').textContent = this.#steps.length ? 'Steps' : 'Work';
  }
}
