// What an address of the console shows that leads nowhere.

import { find } from '../shared/dom';
import { shortened } from '../shared/format';
import type { Page, Topic } from './page';

export class UnknownPage implements Page {
  readonly topics: readonly Topic[] = [];
  readonly title = 'No such page';

  show(address: string): void {
    find('unknown-text').textContent = `The console has no page “${shortened(address, 120)}”.`;
  }

  hide(): void {}

  heard(): void {}
}
