// What the service keys are called, for lists that name them by their ids.

import { make } from '../shared/dom';
import { json, Refusal } from '../shared/request';
import type { Failed } from './page';

export interface ServiceKey {
  key_id: string;
  name: string;
  state: 'active' | 'revoked';
  role: 'client' | 'operator';
  created_at: number;
  last_used_at: number | null;
  revoked_at: number | null;
  old_secret_until: number | null;
  sessions: number;
  max_sessions: number;
}

class KeyNames {
  #names = new Map<string, string>();

  async load(failed: Failed): Promise<readonly ServiceKey[]> {
    try {
      const { keys } = await json<{ keys: ServiceKey[] }>('GET', 'console/api/keys');
      this.know(keys);
      return keys;
    } catch (error) {
      failed(error);
      if (error instanceof Refusal) throw error;
      return [];
    }
  }

  know(keys: readonly ServiceKey[]): void {
    this.#names = new Map(keys.map((key) => [key.key_id, key.name]));
    for (const select of document.querySelectorAll<HTMLSelectElement>('select[data-keys]')) {
      const chosen = select.value;
      const options = keys.map((key) => new Option(key.state === 'active' ? key.name : `${key.name} (revoked)`, key.key_id));
      select.replaceChildren(new Option('Any', ''), ...options);
      select.value = keys.some((key) => key.key_id === chosen) ? chosen : '';
    }
  }

  /** The name of a key, or its id. */
  of(id: string | undefined): string {
    return id === undefined ? '–' : (this.#names.get(id) ?? id);
  }
}

export const keyNames = new KeyNames();

/** The name of a key in a table. */
export function keyCell(id: string): HTMLElement {
  const name = keyNames.of(id);
  return make('span', { class: 'short', title: name }, name);
}
