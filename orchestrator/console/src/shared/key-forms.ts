// The dialogs that make a key, and that give one a new secret.

import { openForm, submit } from './dialogs';
import { find } from './dom';
import { revealSecret } from './secret';

interface Key {
  key_id: string;
  name: string;
}

type NewKey = Key & { secret: string };

export interface KeyFormsOptions {
  /** Before the ids of the elements: `x-new`, `x-create-form`, `x-rotate-form`, … */
  prefix: string;
  create(name: string, values: FormData): Promise<NewKey>;
  rotate(id: string, keepOldFor: number): Promise<NewKey>;
  /** Reloads the list. */
  changed(): Promise<void>;
  failed(error: unknown): void;
}

export class KeyForms {
  /** The key to rotate. */
  #chosen: Key | undefined;

  constructor(private readonly options: KeyFormsOptions) {
    find(this.#id('new')).addEventListener('click', () => {
      find<HTMLFormElement>(this.#id('create-form')).reset();
      openForm(this.#id('create-dialog'));
    });
    this.#form('create', 'The key is ready', (values) => options.create(String(values.get('name')).trim(), values));
    this.#form('rotate', 'The new secret', (values) => options.rotate(this.#chosen?.key_id ?? '', Number(values.get('keep_old_for'))));
  }

  openRotate(key: Key): void {
    this.#chosen = key;
    find(this.#id('rotate-name')).textContent = key.name;
    openForm(this.#id('rotate-dialog'));
  }

  #form(name: 'create' | 'rotate', title: string, act: (values: FormData) => Promise<NewKey>): void {
    const form = find<HTMLFormElement>(this.#id(`${name}-form`));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void submit(form, async () => {
        try {
          const key = await act(new FormData(form));
          find<HTMLDialogElement>(this.#id(`${name}-dialog`)).close();
          // The row whose button had the focus is redrawn.
          revealSecret(title, key.name, key.secret, () => find(this.#id('new')).focus());
          await this.options.changed();
        } catch (error) {
          // Signed out or unreachable, which the whole page shows.
          this.options.failed(error);
          throw error;
        }
      });
    });
  }

  #id(part: string): string {
    return `${this.options.prefix}-${part}`;
  }
}
