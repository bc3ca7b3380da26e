// The files of a session that lives.

import { find, make, tell } from '../shared/dom';
import { bytes } from '../shared/format';
import { download, json, Refusal, request, segment } from '../shared/request';
import type { Failed } from './page';

interface SessionFile {
  name: string;
  size: number;
  source: string;
  complete?: boolean;
}

export class SessionFiles {
  #id = '';

  constructor(private readonly failed: Failed) {
    find('session-files-again').addEventListener('click', () => void this.#load());
    const upload = find<HTMLInputElement>('session-upload');
    upload.addEventListener('change', () => {
      const files = [...(upload.files ?? [])];
      upload.value = '';
      void this.#try(async () => {
        for (const file of files) await request('PUT', this.#path(file.name), { body: file });
      });
    });
  }

  async show(id: string, live: boolean): Promise<void> {
    this.#id = id;
    find('session-files').hidden = !live;
    find('session-file-list').replaceChildren();
    if (live) await this.#load();
  }

  #path(name: string): string {
    return `sessions/${segment(this.#id)}/files/${segment(name)}`;
  }

  async #load(): Promise<void> {
    const id = this.#id;
    await this.#try(async () => undefined);
    if (id !== this.#id) return;
  }

  async #try(act: () => Promise<void>): Promise<void> {
    const problem = find('session-files-problem');
    problem.textContent = '';
    try {
      await act();
      this.#print(await json<SessionFile[]>('GET', `sessions/${segment(this.#id)}/files`));
    } catch (error) {
      this.failed(error);
      if (error instanceof Refusal && error.code !== 'session_ended') tell(problem, error.message);
    }
  }

  #print(files: readonly SessionFile[]): void {
    const rows = files.map((file) => {
      const fetch = make('button', { type: 'button', class: 'small' }, 'Download', make('span', { class: 'unseen' }, ` ${file.name}`));
      fetch.addEventListener('click', () => void this.#try(() => download(this.#path(file.name), file.name)));
      const remove = make('button', { type: 'button', class: 'small' }, 'Delete', make('span', { class: 'unseen' }, ` ${file.name}`));
      remove.addEventListener('click', () => void this.#try(async () => void (await request('DELETE', this.#path(file.name)))));
      const note = `${bytes(file.size)}, ${file.source}${file.complete === false ? ', not complete' : ''}`;
      return make('li', {}, make('span', { class: 'name' }, file.name, make('span', { class: 'note' }, note)), fetch, remove);
    });
    find('session-file-list').replaceChildren(...(rows.length ? rows : [make('li', { class: 'none' }, 'No files: upload some, or let the browser download them.')]));
  }
}
