// The form that sends a task: a recording, an extract, or a fleet.

import { submit } from '../shared/dialogs';
import { find, make } from '../shared/dom';
import { bytes } from '../shared/format';
import { json, Refusal, segment } from '../shared/request';
import { outputTable } from './output';
import { type Failed, fromHere, type Page, type Topic } from './page';
import type { Task } from './task-record';

type Type = 'run' | 'extract' | 'fleet';
/** A field of a page becomes slow with more text than this; it is held beside the field. */
const MOST_IN_FIELD = 300_000;
/** Seconds to wait for a try. */
const TRY_FOR = 60;

export class NewTaskPage implements Page {
  readonly topics: readonly Topic[] = [];
  readonly title = 'New task';
  readonly #form = find<HTMLFormElement>('new-task-form');
  /** Texts that are too long for their fields. */
  readonly #held = new Map<string, string>();

  constructor(private readonly failed: Failed) {
    this.#form.addEventListener('change', () => this.#print());
    for (const field of this.#form.querySelectorAll<HTMLTextAreaElement>('textarea[data-drop]')) this.#accept(field);
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#submit(async () => {
        const go = fromHere();
        const { taskId } = await json<Task>('POST', `lam/${this.#type()}`, this.#body());
        go(`#/tasks/${segment(taskId)}`);
      });
    });
    find('nt-try').addEventListener('click', () => {
      void this.#submit(async () => {
        const result = find('nt-result');
        result.replaceChildren(make('p', { class: 'hint' }, 'Reading the page…'));
        try {
          const task = await json<Task>('POST', 'lam/extract', { ...this.#body(), wait: TRY_FOR });
          this.#showTried(task);
        } catch (error) {
          result.replaceChildren();
          throw error;
        }
      });
    });
  }

  show(): void {
    this.#print();
  }

  hide(): void {
    find('nt-result').replaceChildren();
    const problem = this.#form.querySelector('.problem');
    if (problem) problem.textContent = '';
  }

  heard(): void {}

  #type(): Type {
    return new FormData(this.#form).get('type') as Type;
  }

  #print(): void {
    const type = this.#type();
    for (const part of this.#form.querySelectorAll<HTMLElement>('[data-for]')) {
      part.hidden = !(part.dataset['for'] ?? '').split(' ').includes(type);
    }
    find('nt-result').replaceChildren();
  }

  async #submit(act: () => Promise<void>): Promise<void> {
    await submit(this.#form, async () => {
      try {
        await act();
      } catch (error) {
        if (error instanceof Refusal) this.failed(error);
        throw error;
      }
    });
  }

  /** A file that is dropped, or a text that is pasted, however long. */
  #accept(field: HTMLTextAreaElement): void {
    field.addEventListener('dragover', (event) => event.preventDefault());
    field.addEventListener('drop', async (event) => {
      const file = event.dataTransfer?.files[0];
      if (!file) return;
      event.preventDefault();
      this.#take(field, await file.text());
    });
    field.addEventListener('paste', (event) => {
      const text = event.clipboardData?.getData('text') ?? '';
      if (text.length <= MOST_IN_FIELD) return;
      event.preventDefault();
      this.#take(field, text);
    });
    field.addEventListener('input', () => this.#hold(field.name, undefined));
  }

  #take(field: HTMLTextAreaElement, text: string): void {
    const long = text.length > MOST_IN_FIELD;
    field.value = long ? '' : text;
    this.#hold(field.name, long ? text : undefined);
  }

  #hold(name: string, text: string | undefined): void {
    if (text === undefined) this.#held.delete(name);
    else this.#held.set(name, text);
    const note = document.getElementById(`nt-${name}-held`);
    if (note) note.textContent = text === undefined ? '' : `${bytes(new Blob([text]).size)} of text are held and will be sent. Type to replace them.`;
  }

  #text(name: string): string {
    return this.#held.get(name) ?? String(new FormData(this.#form).get(name) ?? '').trim();
  }

  /** The JSON in a field. */
  #value(name: string, label: string): unknown {
    const text = this.#text(name);
    if (!text) return undefined;
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new Refusal(0, 'invalid_json', `${label} is no JSON: ${error instanceof Error ? error.message : 'it cannot be read'}.`, name);
    }
  }

  #body(): Record<string, unknown> {
    const type = this.#type();
    const body = this.#work(type);
    const values = new FormData(this.#form);
    const put = (name: string, value: unknown) => {
      if (value !== undefined && value !== '') body[name] = value;
    };
    if (type !== 'fleet') {
      put('inputs', this.#value('inputs', 'What is under Inputs'));
      put('secrets', this.#value('secrets', 'What is under Secrets'));
    }
    for (const name of ['browser_type', 'name', 'service_passcode']) put(name, this.#text(name));
    if (values.get('headless') === 'false') body['headless'] = false;
    if (this.#text('timeout')) body['timeout'] = Number(this.#text('timeout'));
    if (values.has('safe_to_repeat')) body['safe_to_repeat'] = true;
    return body;
  }

  #work(type: Type): Record<string, unknown> {
    const missing = (name: string, what: string) => new Refusal(0, 'missing', what, name);
    if (type === 'extract') {
      const schema = this.#value('schema', 'The schema');
      if (schema === undefined) throw missing('schema', 'A schema is needed: a selector for each field.');
      const url = this.#text('url');
      if (!url) throw missing('url', 'The page is needed: an address such as https://example.com/.');
      return { url, schema, ...(this.#text('rows') ? { rows: this.#text('rows') } : {}) };
    }
    const name = type === 'run' ? 'recording' : 'fleet';
    const given = this.#value(name, type === 'run' ? 'The recording' : 'The fleet');
    if (typeof given !== 'object' || given === null) throw missing(name, type === 'run' ? 'Paste a recording, or drop its file.' : 'Paste a fleet, or drop its file.');
    return type === 'run' ? { recording: given } : { ...(given as Record<string, unknown>) };
  }

  #showTried(task: Task): void {
    const link = make('a', { href: `#/tasks/${segment(task.taskId)}` }, 'the task');
    const note =
      task.status === 'success'
        ? make('p', {}, `${task.output.length} rows. See `, link, '.')
        : make('p', { class: 'problem' }, `${task.error?.message ?? 'It goes on.'} See `, link, '.');
    find('nt-result').replaceChildren(note, ...outputTable(task.output));
  }
}
