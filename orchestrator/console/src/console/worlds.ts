// Worlds: the integration keys and the requests for worlds of the key that is signed in.

import { find } from '../shared/dom';
import type { ServerEvent } from '../shared/events';
import { IntegrationKeys } from '../worlds/integration-keys';
import { RequestLog } from '../worlds/request-log';
import { WorldDialog } from '../worlds/world-dialog';
import type { Failed, Page, Topic } from './page';

export class WorldsPage implements Page {
  readonly topics: readonly Topic[] = [];
  readonly title = 'Worlds';
  readonly #log: RequestLog;
  readonly #keys: IntegrationKeys;

  constructor(failed: Failed) {
    const world = new WorldDialog(failed);
    const log = new RequestLog(failed, (id) => world.open(id));
    this.#log = log;
    this.#keys = new IntegrationKeys(failed, (list) => log.setKeys(list));
    find('world-keys-reload').addEventListener('click', () => void this.#keys.load());
  }

  show(): void {
    void this.#keys.load();
    void this.#log.load();
  }

  hide(): void {
    this.#keys.clear();
    this.#log.clear();
  }

  heard({ type }: ServerEvent): void {
    // The daemon is back.
    if (type === 'hello') this.show();
  }
}
