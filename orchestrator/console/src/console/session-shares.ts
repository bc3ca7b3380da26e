// The links by which others may watch a session.

import { copy, submit } from '../shared/dialogs';
import { find, make } from '../shared/dom';
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
  #id = '';

  constructor(private readonly failed: Failed) {
    const form = find<HTMLFormElement>('session-share-form');
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void submit(form, async () => {
        const values = new FormData(form);
        const body: Record<string, unknown> = { enable_actions: values.has('enable_actions') };
        if (values.get('ttl')) body['ttl'] = Number(values.get('ttl'));
        try {
          await json('POST', this.#path(), body);
          await this.#load();
        } catch (error) {
          this.failed(error);
          throw error;
        }
      });
    });
  }

  async show(id: string, live: boolean): Promise<void> {
    this.#id = id;
    find('session-sharing').hidden = !live;
    if (live) await this.#load();
  }

  #path(): string {
    return `sessions/${segment(this.#id)}/share`;
  }

  async #load(): Promise<void> {
    try {
      const { shares } = await json<{ shares: Share[] }>('GET', this.#path());
      const rows = shares.map((share) => this.#row(share));
      find('session-shares').replaceChildren(...(rows.length ? rows : [make('li', { class: 'none' }, 'No links yet. Create one to let somebody watch.')]));
    } catch (error) {
      this.failed(error);
      if (!(error instanceof Refusal)) return;
      find('session-shares').replaceChildren();
    }
  }

  #row(share: Share): HTMLElement {
    const url = make('input', { readonly: '', value: share.url, 'aria-label': 'Link', class: 'link' });
    const said = make('span', { class: 'note', role: 'status' }, `${share.enable_actions ? 'may take control' : 'may watch'} until ${shortMoment(share.expires_at)}`);
    const button = make('button', { type: 'button', class: 'small' }, 'Copy');
    button.addEventListener('click', async () => {
      said.textContent = (await copy(url)) ? 'Copied.' : 'Press Ctrl+C to copy it.';
    });
    const end = make('button', { type: 'button', class: 'small' }, 'End');
    end.addEventListener('click', async () => {
      await json('DELETE', `${this.#path()}/${segment(share.share_id)}`).catch((error) => this.failed(error));
      await this.#load();
    });
    return make('li', {}, make('span', { class: 'name' }, url, said), button, end);
  }
}
