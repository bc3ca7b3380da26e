// The form that makes a session, with the program that would do the same.

import { submit } from '../shared/dialogs';
import { find, make } from '../shared/dom';
import { json, ROOT, segment } from '../shared/request';
import { fitting, programFor } from './client-lines';
import { codeBox } from './code';
import { createBody } from './create-body';
import { listExtensions } from './extensions';
import { type Failed, fromHere, type Page, type Topic } from './page';
import { isOwn, type Profile } from './profile-record';

const EXTENSIONS = 'advanced.extension_ids';

export class NewSessionPage implements Page {
  readonly topics: readonly Topic[] = [];
  readonly title = 'New session';
  readonly #form = find<HTMLFormElement>('new-session-form');

  constructor(failed: Failed) {
    this.#form.addEventListener('input', () => this.#print());
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      void submit(this.#form, async () => {
        const values = this.#values();
        const path = values.get('kind') === 'webdriver' ? 'sessions/webdriver/create' : 'sessions/create';
        const go = fromHere();
        try {
          const { session_id: id } = await json<{ session_id: string }>('POST', path, createBody(values));
          go(`#/sessions/${segment(id)}`);
        } catch (error) {
          failed(error);
          throw error;
        }
      });
    });
  }

  /** `profile` is the name of one that the session is to begin with. */
  show(profile: string): void {
    if (profile) {
      find<HTMLInputElement>('ns-profile').value = profile;
      find<HTMLSelectElement>('ns-profile-mode').value = '';
      find<HTMLDetailsElement>('ns-profile-part').open = true;
    }
    this.#print();
    void this.#offer();
  }

  /** Offers the profiles and extensions that there are. Without them, a profile's name can still be typed. */
  async #offer(): Promise<void> {
    const extensions = (await listExtensions().catch(() => [])).filter(isOwn);
    const chosen = new Set(new FormData(this.#form).getAll(EXTENSIONS));
    find('ns-extensions-part').hidden = extensions.length === 0;
    find('ns-extensions').replaceChildren(...extensions.map(({ extension_id: value, name, version }) => {
      const box = make('input', { type: 'checkbox', name: EXTENSIONS, value });
      box.checked = chosen.has(value);
      return make('label', { class: 'check' }, box, ` ${name} ${version}`);
    }));
    this.#print();
    const { profiles } = await json<{ profiles: Profile[] }>('GET', 'profiles').catch(() => ({ profiles: [] }));
    find('ns-profiles').replaceChildren(...profiles.filter(isOwn).map(({ name }) => make('option', { value: name })));
  }

  hide(): void {
    const problem = this.#form.querySelector('.problem');
    if (problem) problem.textContent = '';
  }

  heard(): void {}

  #values(): Map<string, string> {
    const data = new FormData(this.#form);
    // Of a field that is there several times, all values.
    return new Map([...data.keys()].map((name) => [name, data.getAll(name).map(String).join(' ')]));
  }

  #print(): void {
    const values = this.#values();
    const [kind, engine] = [values.get('kind') ?? 'devtools', values.get('browser_type') ?? 'chromium'];
    const app = find<HTMLInputElement>('ns-app');
    app.disabled = kind !== 'webdriver';
    const body = createBody(values);
    find('new-session-code').replaceChildren(...codeBox(fitting(engine, kind), (client) => programFor(client, ROOT.href, kind, body)));
  }
}
