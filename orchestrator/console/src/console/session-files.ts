// The files of a session that lives.

import { Answers } from '../shared/answers';
import { find, make, tell } from '../shared/dom';
import { bytes } from '../shared/format';
import { write } from '../shared/list';
import { download, json, Refusal, request, segment } from '../shared/request';
import type { Failed } from './page';

interface SessionFile {
  name: string;
  size: number;
  source: string;
  complete?: boolean;
}

export class SessionFiles {
  /** The session on the page. What was begun for another one goes on for that one, and shows nothing here. */
  #id = '';
  /** The file that is on its way to each session. */
  readonly #uploading = new Map<string, string>();
  readonly #answers = new Answers();

  constructor(private readonly failed: Failed) {
    find('session-files-again').addEventListener('click', () => void this.#try(this.#id));
    const upload = find<HTMLInputElement>('session-upload');
    upload.addEventListener('change', () => {
      const [id, files] = [this.#id, [...(upload.files ?? [])]];
      upload.value = '';
      void this.#try(id, () => this.#upload(id, files));
    });
  }

  async show(id: string, live: boolean): Promise<void> {
    this.clear();
    this.#id = id;
    this.#progress();
    find('session-files').hidden = !live;
    if (live) await this.#try(id);
  }

  clear(): void {
    this.#id = '';
    find('session-file-list').replaceChildren();
    find('session-files-problem').textContent = '';
  }

  async #upload(id: string, files: readonly File[]): Promise<void> {
    try {
      for (const file of files) {
        this.#uploading.set(id, file.name);
        this.#progress();
        await request('PUT', path(id, file.name), { body: file });
      }
    } finally {
      this.#uploading.delete(id);
      this.#progress();
    }
  }

  /** Says which file is on its way to the session on the page. The next ones can be chosen once it has arrived. */
  #progress(): void {
    const name = this.#uploading.get(this.#id);
    find<HTMLInputElement>('session-upload').disabled = name !== undefined;
    write(find('session-uploading'), name === undefined ? '' : `${name}, uploading…`);
  }

  /** Does something with the files of a session, and shows what it has then. */
  async #try(id: string, act?: () => Promise<void>): Promise<void> {
    const problem = find('session-files-problem');
    problem.textContent = '';
    try {
      await act?.();
      const newest = this.#answers.ask();
      const files = await json<SessionFile[]>('GET', `sessions/${segment(id)}/files`);
      if (id === this.#id && newest()) this.#print(id, files);
    } catch (error) {
      this.failed(error);
      if (id === this.#id && error instanceof Refusal && error.code !== 'session_ended') tell(problem, error.message);
    }
  }

  #print(id: string, files: readonly SessionFile[]): void {
    const rows = files.map((file) => {
      const fetch = make('button', { type: 'button', class: 'small' }, 'Download', make('span', { class: 'unseen' }, ` ${file.name}`));
      fetch.addEventListener('click', () => void this.#try(id, () => download(path(id, file.name), file.name)));
      const remove = make('button', { type: 'button', class: 'small' }, 'Delete', make('span', { class: 'unseen' }, ` ${file.name}`));
      remove.addEventListener('click', () => void this.#try(id, async () => void (await request('DELETE', path(id, file.name)))));
      const note = `${bytes(file.size)}, ${file.source}${file.complete === false ? ', not complete' : ''}`;
      return make('li', {}, make('span', { class: 'name' }, file.name, make('span', { class: 'note' }, note)), fetch, remove);
    });
    find('session-file-list').replaceChildren(...(rows.length ? rows : [make('li', { class: 'none' }, 'No files: upload some, or let the browser download them.')]));
  }
}

function path(id: string, name: string): string {
  return `sessions/${segment(id)}/files/${segment(name)}`;
}
