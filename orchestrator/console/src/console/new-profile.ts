// The form that opens a browser in which a person signs in, for a profile.

import { submit } from '../shared/dialogs';
import { find } from '../shared/dom';
import { json, segment } from '../shared/request';
import { createBody } from './create-body';
import type { Failed, Page, Topic } from './page';

export class NewProfilePage implements Page {
  readonly topics: readonly Topic[] = [];
  readonly title = 'Sign in for a profile';
  readonly #form = find<HTMLFormElement>('new-profile-form');
  readonly #name = find<HTMLInputElement>('np-name');
  #again = '';

  constructor(failed: Failed) {
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      void submit(this.#form, async () => {
        const values = new Map([...new FormData(this.#form)].map(([name, value]) => [name, String(value)]));
        try {
          const profile = { name: this.#name.value.trim(), mode: 'write' };
          // A person looks for a password: no client is there to stay connected.
          const body = { ...createBody(values), profile, keep_alive: true };
          const { session_id: id } = await json<{ session_id: string }>('POST', 'sessions/create', body);
          location.hash = `#/sessions/${segment(id)}`;
        } catch (error) {
          failed(error);
          throw error;
        }
      });
    });
  }

  /** `name` is that of a profile that there is, for another sign-in. */
  show(name: string): void {
    const another = name !== this.#again;
    this.#again = name;
    if (another) this.#form.reset();
    if (name) this.#name.value = name;
    this.#name.readOnly = name !== '';
    find('new-profile-title').textContent = name ? `Sign in again to “${name}”` : 'New profile';
    find('new-profile-hint').textContent = name
      ? 'The browser begins with what the profile holds. Sign in by hand, then save it: that makes a new version.'
      : 'A browser opens. Sign in by hand, then save what it keeps for its sites as the profile.';
  }

  hide(): void {
    const problem = this.#form.querySelector('.problem');
    if (problem) problem.textContent = '';
  }

  heard(): void {}
}
