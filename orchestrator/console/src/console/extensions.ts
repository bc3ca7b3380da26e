// The browser extensions that sessions can load.

import { Answers } from '../shared/answers';
import { confirmAct } from '../shared/confirm';
import { openForm, submit } from '../shared/dialogs';
import { find, make, tell } from '../shared/dom';
import { ago, bytes, exactMoment } from '../shared/format';
import { write } from '../shared/list';
import { json, Refusal, request, segment } from '../shared/request';
import { row } from '../shared/table';
import { keyCell } from './key-names';
import type { Failed, Page, Topic } from './page';

export interface Extension {
  extension_id: string;
  key_id: string;
  name: string;
  version: string;
  manifest_version: number;
  permissions: string[];
  hosts: string[];
  size: number;
  created: number;
}

export async function listExtensions(): Promise<Extension[]> {
  return (await json<{ extensions: Extension[] }>('GET', 'extensions')).extensions;
}

export class ExtensionsPage implements Page {
  readonly topics: readonly Topic[] = [];
  readonly title = 'Extensions';
  readonly #answers = new Answers();

  constructor(private readonly failed: Failed) {
    const form = find<HTMLFormElement>('extension-upload-form');
    find('extensions-upload').addEventListener('click', () => {
      form.reset();
      openForm('extension-upload-dialog');
    });
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void submit(form, () => this.#upload(find<HTMLInputElement>('extension-upload-file').files?.[0]));
    });
  }

  show(): void {
    void this.#load();
  }

  hide(): void {}

  heard({ type }: { type: string }): void {
    if (type === 'hello') void this.#load();
  }

  async #load(): Promise<void> {
    const newest = this.#answers.ask();
    try {
      const extensions = await listExtensions();
      if (!newest()) return;
      write(find('extensions-problem'), '');
      find('extensions-table').hidden = extensions.length === 0;
      find('extensions-empty').hidden = extensions.length > 0;
      find('extensions-rows').replaceChildren(...extensions.map((extension) => this.#row(extension)));
    } catch (error) {
      this.failed(error);
      if (error instanceof Refusal) tell(find('extensions-problem'), error.message);
    }
  }

  #row(extension: Extension): HTMLElement {
    const { extension_id: id, name, version, created } = extension;
    const remove = make('button', { type: 'button', class: 'small' }, 'Delete', make('span', { class: 'unseen' }, ` ${name}`));
    remove.addEventListener('click', () => this.#delete(extension));
    return row(
      {},
      ['Name', make('span', { class: 'name' }, name, make('span', { class: 'note' }, make('code', {}, id)))],
      ['Version', version],
      ['May use', words(extension.permissions)],
      ['On sites', words(extension.hosts)],
      ['Size', make('span', { class: 'number' }, bytes(extension.size))],
      ['Uploaded', make('time', { datetime: new Date(created).toISOString(), title: exactMoment(created) }, ago(created))],
      ['Key', keyCell(extension.key_id)],
      ['', remove],
    );
  }

  async #upload(file: File | undefined): Promise<void> {
    if (!file) throw new Refusal(400, 'invalid_file', 'Choose a file.', 'file');
    try {
      await request('POST', 'extensions', { body: file });
    } catch (error) {
      this.failed(error);
      throw error instanceof Refusal ? new Refusal(error.status, error.code, `The file cannot be used: ${error.message}`, 'file') : error;
    }
    find<HTMLDialogElement>('extension-upload-dialog').close();
    await this.#load();
  }

  #delete({ extension_id: id, name }: Extension): void {
    confirmAct(`Delete “${name}” for good?`, 'No backup brings it back. Browsers that have loaded it keep it until their session ends.', 'Delete for good', async () => {
      await json('DELETE', `extensions/${segment(id)}`);
      await this.#load();
    });
  }
}

const words = (list: readonly string[]): string => list.join(', ') || '–';
