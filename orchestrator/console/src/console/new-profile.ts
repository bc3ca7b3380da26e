// The form that opens a browser in which a person signs in, for a profile.

import { submit } from '../shared/dialogs';
import { find } from '../shared/dom';
import { json, segment } from '../shared/request';
import { createBody } from './create-body';
import { type Failed, fromHere, type Page, type Topic } from './page';
import { keeps, type Profile } from './profile-record';

export class NewProfilePage implements Page {
  readonly topics: readonly Topic[] = [];
  readonly title = 'Sign in for a profile';
  readonly #form = find<HTMLFormElement>('new-profile-form');
  readonly #name = find<HTMLInputElement>('np-name');
  #again = '';

  readonly #failed: Failed;

  constructor(failed: Failed) {
    this.#failed = failed;
    find('np-kinds').addEventListener('change', () => this.#hint());
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      void submit(this.#form, async () => {
        const values = new Map([...new FormData(this.#form)].map(([name, value]) => [name, String(value)]));
        const go = fromHere();
        try {
          // What a profile keeps stays so.
          if (this.#again) values.delete('profile.kind');
          const created = createBody(values);
          const profile = { ...(created['profile'] as object | undefined), name: this.#name.value.trim(), mode: 'write' };
          // A person looks for a password: no client is there to stay connected.
          const body = { ...created, profile, keep_alive: true };
          const { session_id: id } = await json<{ session_id: string }>('POST', 'sessions/create', body);
          go(`#/sessions/${segment(id)}`);
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
    this.#engines(undefined);
    find('np-kinds').hidden = name !== '';
    this.#hint();
    if (name) void this.#look(name);
    find('new-profile-title').textContent = name ? `Sign in again to “${name}”` : 'New profile';
    find('new-profile-hint').textContent = name
      ? 'The browser begins with what the profile holds. Sign in by hand, then save it: that makes a new version.'
      : 'A browser opens. Sign in by hand, then save what it keeps for its sites as the profile.';
  }

  /** A folder is for the browser that made it. */
  async #look(name: string): Promise<void> {
    try {
      const profile = await json<Profile>('GET', `profiles/${segment(name)}`);
      if (name !== this.#again || profile.kind === 'state') return;
      this.#engines(profile.engine);
      find('np-kind-hint').textContent = keeps(profile);
    } catch (error) {
      // One that is not there is made.
      this.#failed(error);
    }
  }

  /** Leaves the choice of one browser, or of all. */
  #engines(only: string | undefined): void {
    for (const choice of this.#form.querySelectorAll<HTMLInputElement>('input[name=browser_type]')) {
      choice.disabled = only !== undefined && choice.value !== only;
      if (choice.value === only) choice.checked = true;
    }
  }

  #hint(): void {
    const kind = this.#again ? 'state' : this.#form.querySelector<HTMLInputElement>('input[name="profile.kind"]:checked')?.value;
    find('np-kind-hint').textContent = kind === 'folder'
      ? 'Also service workers, caches of sites and permissions. Only the same browser can use the profile later.'
      : 'Any browser can use the profile later, whichever makes it.';
  }

  hide(): void {
    const problem = this.#form.querySelector('.problem');
    if (problem) problem.textContent = '';
  }

  heard(): void {}
}
