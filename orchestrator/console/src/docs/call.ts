// One call: what it takes and answers, the same in several languages, and a try.

import { copy } from '../shared/dialogs';
import { inline, make } from '../shared/dom';
import { type Filled, example, LANGUAGES, type Language, pathOf } from './examples';
import { bodyOf, type Call, isSocket, KEY_HEADERS, keyOf, type Parameter } from './openapi';
import { prose } from './prose';
import type { Schemas } from './schema';
import { trying } from './trying';

/** What the whole page knows: where the daemon is, the keys, and the language of the examples. */
export interface Reader {
  schemas: Schemas;
  base: string;
  key(kind: 'service' | 'integration'): string;
  language(): Language;
  choose(language: Language): void;
}

const KEYS = {
  service: 'A service key, in the header `service-secret-key` or as `Authorization: Bearer KEY`.',
  integration: 'An integration key, in the header `x-api-key`.',
  none: 'No key: the URL carries a token, or the call is public.',
} as const;

/** A call's content, once somebody unfolds it. */
export class CallView {
  readonly element: HTMLElement;
  readonly #code = make('textarea', { class: 'code', readonly: '', spellcheck: 'false' });
  readonly #tabs = new Map<Language, HTMLButtonElement>();
  readonly #fields: { parameter: Parameter; input: HTMLInputElement | HTMLSelectElement }[] = [];
  #body: HTMLTextAreaElement | undefined;

  constructor(private readonly call: Call, private readonly reader: Reader) {
    const { operation } = call;
    this.element = make('div', { class: 'content' }, ...prose(operation.description), this.#access(), ...this.#parameters(), ...this.#bodies(), ...this.#example(), ...this.#answers());
    this.refresh();
  }

  /** Shows the example anew. */
  refresh(): void {
    const language = this.reader.language();
    for (const [name, tab] of this.#tabs) tab.setAttribute('aria-pressed', String(name === language));
    this.#code.value = example(language, this.call, this.reader.base, this.#filled());
    this.#code.setAttribute('aria-label', `The call in ${LANGUAGES[language]}`);
    this.#code.rows = Math.min(24, this.#code.value.split('\n').length + 1);
  }

  #id(part: string): string {
    return `${this.call.operation.operationId}-${part}`;
  }

  #filled(): Filled {
    const filled: Filled = { path: {}, query: [], headers: [], body: this.#body?.value ?? '' };
    for (const { parameter, input } of this.#fields) {
      if (parameter.in === 'path') filled.path[parameter.name] = input.value;
      else if (parameter.in === 'query') filled.query.push([parameter.name, input.value]);
      else filled.headers.push([parameter.name, input.value]);
    }
    return filled;
  }

  #access(): HTMLElement {
    const { kind, optional } = keyOf(this.call);
    const also = optional && kind === 'service' ? ' Needed only where `server.status_needs_key` says so.' : optional && kind === 'integration' ? ' It may stand in the body as `api_key`.' : '';
    return make('p', { class: 'hint' }, make('b', {}, 'Key: '), ...inline(KEYS[kind] + also));
  }

  #parameters(): HTMLElement[] {
    const { parameters } = this.call.operation;
    if (parameters.length === 0) return [];
    const items = parameters.map((parameter) => {
      const id = this.#id(`${parameter.in}-${parameter.name}`);
      const whole = this.reader.schemas.resolve(parameter.schema);
      const values = this.reader.schemas.values(whole) ?? (whole.type === 'boolean' ? [true, false] : undefined);
      const input = values
        ? make('select', { id }, make('option', { value: '' }, parameter.required ? '' : 'any'), ...values.map((value) => make('option', {}, String(value))))
        : make('input', { id, autocomplete: 'off', spellcheck: 'false' });
      input.addEventListener('input', () => this.refresh());
      this.#fields.push({ parameter, input });
      const head = make('label', { for: id, class: 'member' }, make('code', { class: 'field' }, parameter.name), make('span', { class: 'type' }, `${parameter.in}, ${values ? 'one of these' : this.reader.schemas.type(parameter.schema)}`), ...(parameter.required ? [make('span', { class: 'required' }, 'required')] : []));
      const about = parameter.description ?? whole.description ?? '';
      const bounds = this.reader.schemas.bounds(whole);
      return make('li', {}, head, input, ...prose(about), ...(bounds ? [make('p', { class: 'note' }, ...inline(bounds))] : []));
    });
    return [make('h3', {}, 'Parameters'), make('ul', { class: 'members fields' }, ...items)];
  }

  #bodies(): HTMLElement[] {
    const body = bodyOf(this.call);
    if (!body) return [];
    if (body.type !== 'application/json') return [make('h3', {}, 'Body'), make('p', { class: 'note' }, `Bytes: ${body.type}.`)];
    const text = make('textarea', { class: 'code', spellcheck: 'false', 'aria-label': 'Body as JSON' });
    text.value = body.example === undefined ? '{}' : JSON.stringify(body.example, null, 2);
    text.rows = Math.min(14, text.value.split('\n').length + 1);
    text.addEventListener('input', () => this.refresh());
    this.#body = text;
    const members = this.reader.schemas.list(body.schema);
    const known = members ? [make('details', {}, make('summary', {}, 'Members of the body'), members)] : [];
    return [make('h3', {}, 'Body'), text, ...known];
  }

  #example(): HTMLElement[] {
    const said = make('span', { class: 'hint', role: 'status' });
    const copies = make('button', { type: 'button', class: 'small' }, 'Copy');
    copies.addEventListener('click', async () => {
      said.textContent = (await copy(this.#code)) ? 'Copied.' : 'Press Ctrl+C to copy it.';
    });
    for (const [language, name] of Object.entries(LANGUAGES) as [Language, string][]) {
      const tab = make('button', { type: 'button', class: 'small' }, name);
      tab.addEventListener('click', () => this.reader.choose(language));
      this.#tabs.set(language, tab);
    }
    const bar = make('div', { class: 'code-head', role: 'group', 'aria-label': 'Language' }, ...this.#tabs.values(), copies, said);
    return [make('h3', {}, 'Example'), bar, this.#code, ...this.#try()];
  }

  #try(): HTMLElement[] {
    const body = bodyOf(this.call);
    // A browser's page can neither set a websocket's headers nor send what it does not have.
    if (isSocket(this.call) || (body && body.type !== 'application/json')) return [];
    return trying(() => {
      const filled = this.#filled();
      const { kind } = keyOf(this.call);
      const missing = this.#fields.find(({ parameter, input }) => parameter.in === 'path' && !input.value.trim());
      if (missing) {
        missing.input.focus();
        throw new Error(`Fill in ${missing.parameter.name} first.`);
      }
      const headers: Record<string, string> = Object.fromEntries(filled.headers.filter(([, value]) => value));
      const key = kind === 'none' ? '' : this.reader.key(kind);
      if (kind !== 'none' && key) headers[KEY_HEADERS[kind]] = key;
      if (body && filled.body.trim()) headers['content-type'] = 'application/json';
      // Below the address of this page, whatever the daemon calls itself.
      const url = new URL(`.${pathOf(this.call, filled)}`, location.href);
      return fetch(url, { method: this.call.method, headers, credentials: 'omit', cache: 'no-store', ...(body && filled.body.trim() ? { body: filled.body } : {}) });
    });
  }

  #answers(): HTMLElement[] {
    const items = Object.entries(this.call.operation.responses).map(([status, answer]) => {
      const types = Object.entries(answer.content ?? {});
      const schema = status.startsWith('2') ? types.find(([type]) => type === 'application/json')?.[1].schema : undefined;
      const members = schema && this.reader.schemas.list(schema);
      const made = make('li', {}, make('p', { class: 'member' }, make('code', { class: 'status', 'data-tone': status < '400' ? 'good' : 'bad' }, status), make('span', { class: 'type' }, types.map(([type]) => type).join(', '))), ...prose(answer.description));
      if (members) made.append(make('details', {}, make('summary', {}, 'Members of the answer'), members));
      return made;
    });
    return [make('h3', {}, 'Answers'), make('ul', { class: 'members' }, ...items)];
  }
}
