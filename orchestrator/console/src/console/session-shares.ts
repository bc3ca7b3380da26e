// The links by which others may watch a session.

import { Answers } from '../shared/answers';
import { copy, submit } from '../shared/dialogs';
import { find, make, tell } from '../shared/dom';
import { shortMoment } from '../shared/format';
import { json, Refusal, segment } from '../shared/request';
import type { Failed } from './page';

interface Share {
  share_id: string;
  url: string;
  enable_actions: boolean;
  expires_at: number;
}

export class SessionShares {
  /** The session on the page. What was begun for another one goes on for that one, and shows nothing here. */
  #id = '';
  readonly #answers = new Answers();

  constructor(private readonly failed: Failed) {
    const form = find<HTMLFormElement>('session-share-form');
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const id = this.#id;
      void submit(form, async () => {
        const values = new FormData(form);
        const body: Record<string, unknown> = { enable_actions: values.has('enable_actions') };
        if (values.get('ttl')) body['ttl'] = Number(values.get('ttl'));
        try {
          await json('POST', path(id), body);
          await this.#load(id);
        } catch (error) {
          this.failed(error);
          if (id === this.#id) throw error;
        }
      });
    });
  }

  async show(id: string, live: boolean): Promise<void> {
    this.clear();
    this.#id = id;
    find('session-sharing').hidden = !live;
    if (live) await this.#load(id);
  }

  clear(): void {
    this.#id = '';
    find('session-shares').replaceChildren();
    find('session-shares-problem').textContent = '';
  }

  async #load(id: string): Promise<void> {
    const newest = this.#answers.ask();
    try {
      const { shares } = await json<{ shares: Share[] }>('GET', path(id));
      if (id !== this.#id || !newest()) return;
      const rows = shares.map((share) => this.#row(id, share));
      find('session-shares').replaceChildren(...(rows.length ? rows : [make('li', { class: 'none' }, 'No links yet. Create one to let somebody watch.')]));
    } catch (error) {
      this.#refused(id, error);
    }
  }

  async #end(id: string, share: Share): Promise<void> {
    find('session-shares-problem').textContent = '';
    await json('DELETE', `${path(id)}/${segment(share.share_id)}`).catch((error) => this.#refused(id, error));
    await this.#load(id);
  }

  #refused(id: string, error: unknown): void {
    this.failed(error);
    if (id === this.#id && error instanceof Refusal && error.code !== 'session_ended') tell(find('session-shares-problem'), error.message);
  }

  #row(id: string, share: Share): HTMLElement {
    const url = make('input', { readonly: '', value: share.url, 'aria-label': 'Link', class: 'link' });
    const rights = make('span', { class: 'note' }, `${share.enable_actions ? 'may take control' : 'may watch'} until ${shortMoment(share.expires_at)}`);
    const said = make('span', { class: 'note', role: 'status' });
    const button = make('button', { type: 'button', class: 'small' }, 'Copy');
    button.addEventListener('click', async () => {
      said.textContent = (await copy(url)) ? 'Copied.' : 'Press Ctrl+C to copy it.';
    });
    const end = make('button', { type: 'button', class: 'small' }, 'End');
    end.addEventListener('click', async () => {
      end.disabled = true;
      await this.#end(id, share);
      // A link that is still there has a row of its own by now, unless the list could not be read.
      end.disabled = false;
    });
    return make('li', {}, make('span', { class: 'name' }, url, rights, said), button, end);
  }
}

function path(id: string): string {
  return `sessions/${segment(id)}/share`;
}
