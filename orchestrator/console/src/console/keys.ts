// The service keys, and the operators' actions on them.

import { Answers } from '../shared/answers';
import { confirmAct } from '../shared/confirm';
import { find, make, tell } from '../shared/dom';
import type { ServerEvent } from '../shared/events';
import { ago, moment } from '../shared/format';
import { KeyForms } from '../shared/key-forms';
import { write } from '../shared/list';
import { json, Refusal, segment } from '../shared/request';
import { badge, row } from '../shared/table';
import { keyNames, type ServiceKey } from './key-names';
import type { Failed, Page, Topic } from './page';

type NewKey = ServiceKey & { secret: string };

export class KeysPage implements Page {
  /** It tells of the keys' numbers of sessions, too. */
  readonly topics: readonly Topic[] = ['keys'];
  readonly title = 'Keys';
  #keys: readonly ServiceKey[] = [];
  readonly #answers = new Answers();
  readonly #forms: KeyForms;

  constructor(private readonly failed: Failed) {
    find('keys-revoked').addEventListener('change', () => this.#print());
    this.#forms = new KeyForms({
      prefix: 'key',
      create: (name, values) => json<NewKey>('POST', 'console/api/keys', { name, role: values.get('role') }),
      rotate: (id, keepOldFor) => json<NewKey>('POST', `console/api/keys/${segment(id)}/rotate`, { keep_old_for: keepOldFor }),
      changed: () => this.#load(),
      failed,
    });
  }

  show(): void {
    void this.#load();
  }

  hide(): void {}

  heard({ type }: ServerEvent): void {
    if (type === 'keys' || type === 'hello') void this.#load();
  }

  async #load(): Promise<void> {
    const newest = this.#answers.ask();
    try {
      const keys = await keyNames.load(this.failed);
      if (!newest()) return;
      this.#keys = keys;
      write(find('keys-problem'), '');
      this.#print();
    } catch (error) {
      if (error instanceof Refusal) tell(find('keys-problem'), error.message);
    }
  }

  #print(): void {
    const operates = document.body.dataset['role'] === 'operator';
    const all = find<HTMLInputElement>('keys-revoked').checked;
    find('keys-filter').hidden = !this.#keys.some((key) => key.state === 'revoked');
    write(find('keys-note'), operates ? '' : 'You see your own key. Operators see and manage all of them.');
    const focused = document.activeElement?.getAttribute('data-focus');
    find('keys-rows').replaceChildren(...this.#keys.filter((key) => all || key.state === 'active').map((key) => this.#row(key, operates)));
    if (focused) document.querySelector<HTMLElement>(`#keys-rows [data-focus="${CSS.escape(focused)}"]`)?.focus();
  }

  #row(key: ServiceKey, operates: boolean): HTMLElement {
    const active = key.state === 'active';
    const button = (what: string, label: string, act: () => void) => {
      const made = make('button', { type: 'button', class: 'small', 'data-focus': `${key.key_id} ${what}` }, label, make('span', { class: 'unseen' }, ` ${key.name}`));
      made.addEventListener('click', act);
      return made;
    };
    const rotate = () => this.#forms.openRotate(key);
    const revoke = () =>
      confirmAct(`Revoke “${key.name}”?`, 'Programs that use this key are refused from now on, and its sessions and tasks end. You cannot take this back.', 'Revoke', async () => {
        await json('DELETE', `console/api/keys/${segment(key.key_id)}`);
        await this.#load();
      });
    const remove = () =>
      confirmAct(`Remove “${key.name}” from the list?`, 'The key is revoked already. Its sessions and tasks stay in the history.', 'Remove', async () => {
        await json('DELETE', `console/api/keys/${segment(key.key_id)}?forget=true`);
        await this.#load();
      });
    const actions = active ? [button('rotate', 'Rotate', rotate), button('revoke', 'Revoke', revoke)] : [button('remove', 'Remove', remove)];
    const limit = key.max_sessions ? ` of ${key.max_sessions}` : '';
    const old = key.old_secret_until !== null && key.old_secret_until > Date.now() ? [make('span', { class: 'note' }, `the old secret works until ${moment(key.old_secret_until)}`)] : [];
    return row(
      { 'data-state': active ? 'ACTIVE' : 'REVOKED' },
      ['Name', make('span', { class: 'name' }, key.name, ...old)],
      ['State', badge(key.state, active ? 'good' : 'off')],
      ['Role', badge(key.role, key.role === 'operator' ? 'accent' : 'plain')],
      ['Id', make('code', {}, key.key_id)],
      ['Sessions', make('span', { class: 'number' }, `${key.sessions}${limit}`)],
      ['Created', make('time', { class: 'when', datetime: new Date(key.created_at).toISOString() }, moment(key.created_at))],
      ['Last used', make('span', { class: 'when', title: key.last_used_at ? moment(key.last_used_at) : '' }, key.last_used_at ? ago(key.last_used_at) : 'never')],
      ['', operates ? make('span', { class: 'actions' }, ...actions) : ''],
    );
  }
}
