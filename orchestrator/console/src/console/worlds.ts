// Worlds: the integration keys and the requests for worlds of the key that is signed in.

import { find, make } from '../shared/dom';
import type { ServerEvent } from '../shared/events';
import { api } from '../worlds/api';
import { IntegrationKeys } from '../worlds/integration-keys';
import { RequestLog } from '../worlds/request-log';
import { WorldDialog } from '../worlds/world-dialog';
import type { Failed, Page, Topic } from './page';

export class WorldsPage implements Page {
  readonly topics: readonly Topic[] = [];
  readonly title = 'Worlds';
  readonly #log: RequestLog;
  readonly #keys: IntegrationKeys;

  constructor(private readonly failed: Failed) {
    const world = new WorldDialog(failed);
    const log = new RequestLog(failed, (id) => world.open(id));
    this.#log = log;
    this.#keys = new IntegrationKeys(failed, (list) => log.setKeys(list));
    find('world-keys-reload').addEventListener('click', () => void this.#keys.load());
  }

  show(): void {
    void this.#keys.load();
    void this.#log.load();
    void this.#lookForRenderer();
  }

  hide(): void {
    this.#keys.clear();
    this.#log.clear();
  }

  rest(): void {
    this.#log.rest();
  }

  /** Says what is missing where no world can be made. */
  async #lookForRenderer(): Promise<void> {
    try {
      const { can_render: can, image } = await api.renderer();
      const note = find('world-renderer');
      note.hidden = can;
      if (!can) note.replaceChildren(make('b', {}, 'No world can be made: the renderer is missing. '), 'This host has no image ', make('code', {}, image), '. To build it, run ', make('code', {}, 'scripts/images --scene'), '.');
    } catch (error) {
      this.failed(error);
    }
  }

  heard({ type }: ServerEvent): void {
    // The daemon is back.
    if (type === 'hello') this.show();
  }
}
