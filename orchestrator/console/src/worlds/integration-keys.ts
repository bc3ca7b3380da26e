// The table of integration keys, and what can be done with them.

import { find, make } from '../shared/dom';
import { api, type IntegrationKey, type NewKey, Refusal } from './api';
import { copy, openDialog, submit } from './dialogs';
import { moment } from './format';

export class IntegrationKeys {
  readonly #rows = find('keys-rows');
  #keys: IntegrationKey[] = [];
  /** What the dialogs for rotating and revoking are about. */
  #chosen: IntegrationKey | undefined;

  /** `failed` hears of what went wrong outside of the dialogs; `changed` of a new list. */
  constructor(private readonly failed: (error: unknown) => void, private readonly changed: (keys: IntegrationKey[]) => void) {
    find('key-new').addEventListener('click', () => {
      find<HTMLFormElement>('create-form').reset();
      openForm('create');
    });
    find<HTMLInputElement>('keys-revoked').addEventListener('change', () => this.#print());
    this.#form('create', (values) => api.createKey(String(values.get('name')).trim(), String(values.get('kind'))));
    this.#form('rotate', (values, id) => api.rotateKey(id, Number(values.get('keep_old_for'))));
    this.#form('revoke', (_, id) => api.revokeKey(id));
    const secret = find<HTMLInputElement>('secret');
    find('secret-copy').addEventListener('click', async () => {
      find('secret-copied').textContent = (await copy(secret)) ? 'Copied.' : 'Press Ctrl+C to copy it.';
    });
    // It stays nowhere, not even in the page.
    find('secret-dialog').addEventListener('close', () => {
      secret.value = '';
      refocus();
    });
  }

  async load(): Promise<void> {
    try {
      this.#keys = await api.keys();
      this.#print();
      this.changed(this.#keys);
      find('keys-problem').textContent = '';
    } catch (error) {
      this.failed(error);
      if (error instanceof Refusal) find('keys-problem').textContent = error.message;
    }
  }

  clear(): void {
    this.#keys = [];
    this.#rows.replaceChildren();
  }

  #form(name: 'create' | 'rotate' | 'revoke', act: (values: FormData, id: string) => Promise<IntegrationKey | NewKey>): void {
    const form = find<HTMLFormElement>(`${name}-form`);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void submit(form, async () => {
        let key: IntegrationKey | NewKey;
        try {
          key = await act(new FormData(form), this.#chosen?.key_id ?? '');
        } catch (error) {
          // Signed out or unreachable, which the whole page shows.
          this.failed(error);
          throw error;
        }
        find<HTMLDialogElement>(`${name}-dialog`).close();
        if ('secret' in key) this.#reveal(key, name === 'rotate');
        await this.load();
        refocus();
      });
    });
  }

  #reveal(key: NewKey, rotated: boolean): void {
    find('secret-name').textContent = key.name;
    find('secret-title').textContent = rotated ? 'The new secret' : 'The key is ready';
    find('secret-copied').textContent = '';
    const secret = find<HTMLInputElement>('secret');
    secret.value = key.secret;
    openDialog('secret-dialog');
    secret.focus();
    secret.select();
  }

  #print(): void {
    const all = find<HTMLInputElement>('keys-revoked').checked;
    const shown = this.#keys.filter((key) => all || key.state === 'ACTIVE');
    const revoked = this.#keys.filter((key) => key.state === 'REVOKED').length;
    find('keys-filter').hidden = revoked === 0;
    find('keys-table').hidden = shown.length === 0;
    find('keys-empty').hidden = shown.length > 0;
    find('keys-empty').textContent = revoked ? 'All keys are revoked.' : 'There is no key yet. Create one for each program that asks for worlds.';
    this.#rows.replaceChildren(...shown.map((key) => this.#row(key)));
  }

  #row(key: IntegrationKey): HTMLElement {
    const active = key.state === 'ACTIVE';
    const used = key.last_used_at === null ? 'never' : (key.last_used ?? moment(key.last_used_at));
    const act = (name: 'rotate' | 'revoke', label: string) => {
      const button = make('button', { type: 'button', class: 'small' }, label, make('span', { class: 'unseen' }, ` ${key.name}`));
      button.addEventListener('click', () => {
        this.#chosen = key;
        find(`${name}-name`).textContent = key.name;
        openForm(name);
      });
      return button;
    };
    return row(
      { 'data-state': key.state },
      ['Name', make('span', { class: 'name' }, key.name)],
      ['State', badge(key.state, active ? 'good' : 'off')],
      ['Kind', badge(key.kind, key.kind === 'live' ? 'accent' : 'plain')],
      ['Key', make('code', {}, key.key)],
      ['Created', make('time', { class: 'when', datetime: new Date(key.created_at).toISOString() }, moment(key.created_at))],
      ['Last used', make('span', { class: 'when', title: key.last_used_at === null ? '' : moment(key.last_used_at) }, used)],
      ['Worlds', key.worlds_generated.toLocaleString()],
      ['', active ? make('span', { class: 'actions' }, act('rotate', 'Rotate'), act('revoke', 'Revoke')) : ''],
    );
  }
}

/** For when the row whose button had the focus was drawn anew. A closed dialog may still hold the focus for a moment. */
function refocus(): void {
  const active = document.activeElement;
  if (!active || active === document.body || active.closest('dialog:not([open])')) find('key-new').focus();
}

function openForm(name: string): void {
  const dialog = openDialog(`${name}-dialog`);
  const problem = dialog.querySelector('.problem');
  if (problem) problem.textContent = '';
}

/** A table's row. On narrow screens each cell is a line of its own, with its heading from `data-label`. */
export function row(attributes: Record<string, string>, ...cells: [heading: string, content: Node | string][]): HTMLElement {
  const made = cells.map(([heading, content]) => make('td', { role: 'cell', 'data-label': heading }, content));
  return make('tr', { role: 'row', ...attributes }, ...made);
}

export function badge(text: string, tone: string): HTMLElement {
  return make('span', { class: 'badge', 'data-tone': tone }, text);
}
