// The table of integration keys and their actions.

import { confirmAct } from '../shared/confirm';
import { find, make, tell } from '../shared/dom';
import { moment } from '../shared/format';
import { KeyForms } from '../shared/key-forms';
import { Refusal } from '../shared/request';
import { badge, row } from '../shared/table';
import { api, type IntegrationKey } from './api';

export class IntegrationKeys {
  readonly #rows = find('world-keys-rows');
  #keys: IntegrationKey[] = [];
  readonly #forms: KeyForms;

  /** Calls `failed` for errors outside of the dialogs, and `changed` with a new list. */
  constructor(private readonly failed: (error: unknown) => void, private readonly changed: (keys: IntegrationKey[]) => void) {
    find<HTMLInputElement>('world-keys-revoked').addEventListener('change', () => this.#print());
    this.#forms = new KeyForms({
      prefix: 'world-key',
      create: (name, values) => api.createKey(name, String(values.get('kind'))),
      rotate: (id, keepOldFor) => api.rotateKey(id, keepOldFor),
      changed: () => this.load(),
      failed,
    });
  }

  async load(): Promise<void> {
    try {
      this.#keys = await api.keys();
      this.#print();
      this.changed(this.#keys);
      find('world-keys-problem').textContent = '';
    } catch (error) {
      this.failed(error);
      if (error instanceof Refusal) tell(find('world-keys-problem'), error.message);
    }
  }

  clear(): void {
    this.#keys = [];
    this.#rows.replaceChildren();
  }

  #print(): void {
    const all = find<HTMLInputElement>('world-keys-revoked').checked;
    const shown = this.#keys.filter((key) => all || key.state === 'ACTIVE');
    const revoked = this.#keys.filter((key) => key.state === 'REVOKED').length;
    find('world-keys-filter').hidden = revoked === 0;
    find('world-keys-table').hidden = shown.length === 0;
    find('world-keys-empty').hidden = shown.length > 0;
    find('world-keys-empty').textContent = revoked ? 'All keys are revoked.' : 'There is no key yet. Create one for each program that asks for worlds.';
    this.#rows.replaceChildren(...shown.map((key) => this.#row(key)));
  }

  #row(key: IntegrationKey): HTMLElement {
    const active = key.state === 'ACTIVE';
    const used = key.last_used_at === null ? 'never' : (key.last_used ?? moment(key.last_used_at));
    const button = (label: string, act: () => void) => {
      const made = make('button', { type: 'button', class: 'small' }, label, make('span', { class: 'unseen' }, ` ${key.name}`));
      made.addEventListener('click', act);
      return made;
    };
    const rotate = () => this.#forms.openRotate(key);
    const revoke = () =>
      confirmAct(`Revoke “${key.name}”?`, 'Programs that use this key are refused from now on. The worlds that they made stay. You cannot take this back.', 'Revoke', async () => {
        await api.revokeKey(key.key_id).catch((error: unknown) => {
          this.failed(error);
          throw error;
        });
        await this.load();
      });
    return row(
      { 'data-state': key.state },
      ['Name', make('span', { class: 'name' }, key.name)],
      ['State', badge(key.state.toLowerCase(), active ? 'good' : 'off')],
      ['Kind', badge(key.kind, key.kind === 'live' ? 'accent' : 'plain')],
      ['Key', make('code', {}, key.key)],
      ['Created', make('time', { class: 'when', datetime: new Date(key.created_at).toISOString() }, moment(key.created_at))],
      ['Last used', make('span', { class: 'when', title: key.last_used_at === null ? '' : moment(key.last_used_at) }, used)],
      ['Worlds', make('span', { class: 'number' }, key.worlds_generated.toLocaleString())],
      ['', active ? make('span', { class: 'actions' }, button('Rotate', rotate), button('Revoke', revoke)) : ''],
    );
  }
}
