// The profiles: logins that outlive their session.

import { Answers } from '../shared/answers';
import { find, make, tell } from '../shared/dom';
import type { ServerEvent } from '../shared/events';
import { ago, bytes, exactMoment } from '../shared/format';
import { write } from '../shared/list';
import { json, Refusal, segment } from '../shared/request';
import { row } from '../shared/table';
import { keyCell } from './key-names';
import type { Failed, Page, Topic } from './page';
import { openImport } from './profile-import';
import { isOwn, type Profile, profilePage, writerLink } from './profile-record';

export class ProfilesPage implements Page {
  readonly topics: readonly Topic[] = ['sessions'];
  readonly title = 'Profiles';
  readonly #answers = new Answers();

  constructor(private readonly failed: Failed) {
    find('profiles-import').addEventListener('click', () => openImport());
  }

  show(): void {
    void this.#load();
  }

  hide(): void {}

  heard({ type }: ServerEvent): void {
    // Sessions write profiles.
    if (type === 'sessions' || type === 'hello') void this.#load();
  }

  async #load(): Promise<void> {
    const newest = this.#answers.ask();
    try {
      const { profiles } = await json<{ profiles: Profile[] }>('GET', 'profiles');
      if (!newest()) return;
      write(find('profiles-problem'), '');
      this.#print(profiles);
    } catch (error) {
      this.failed(error);
      if (error instanceof Refusal) tell(find('profiles-problem'), error.message);
    }
  }

  #print(profiles: readonly Profile[]): void {
    const focused = document.activeElement?.getAttribute('data-focus');
    find('profiles-table').hidden = profiles.length === 0;
    find('profiles-empty').hidden = profiles.length > 0;
    find('profiles-rows').replaceChildren(...profiles.map((profile) => this.#row(profile)));
    if (focused) document.querySelector<HTMLElement>(`#profiles-rows [data-focus="${CSS.escape(focused)}"]`)?.focus();
  }

  #row(profile: Profile): HTMLElement {
    const { name, versions } = profile;
    const place = `${profile.key_id} ${name}`;
    const newest = versions[0];
    const open = make('a', { href: profilePage(profile), 'data-focus': `${place} open` }, name);
    const again = make('a', { class: 'button small', href: `#/new-profile/${segment(name)}`, 'data-focus': `${place} again` }, 'Sign in again', make('span', { class: 'unseen' }, ` to ${name}`));
    return row(
      {},
      ['Name', make('span', { class: 'name' }, open)],
      ['Keeps', profile.kind === 'folder' ? 'a folder' : 'a state'],
      ['Size', make('span', { class: 'number' }, newest ? bytes(newest.size) : '–')],
      ['Last saved', when(newest?.saved)],
      ['Last used', when(profile.used)],
      ['Versions', make('span', { class: 'number' }, String(versions.length))],
      ['Written by', writerLink(profile.writer, 16) ?? '–'],
      ['Key', keyCell(profile.key_id)],
      ['', isOwn(profile) ? again : ''],
    );
  }
}

function when(timestamp: number | undefined): Node | string {
  return timestamp === undefined ? 'never' : make('time', { datetime: new Date(timestamp).toISOString(), title: exactMoment(timestamp) }, ago(timestamp));
}
