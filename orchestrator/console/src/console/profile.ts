// One profile: what it holds, and its versions.

import { Answers } from '../shared/answers';
import { confirmAct } from '../shared/confirm';
import { find, make, tell } from '../shared/dom';
import type { ServerEvent } from '../shared/events';
import { ago, bytes, exactMoment, moment } from '../shared/format';
import { download, json, Refusal, segment } from '../shared/request';
import { keyNames } from './key-names';
import type { Failed, Page, Topic } from './page';
import { profileContents } from './profile-contents';
import { openImport } from './profile-import';
import { isOwn, keeps, type ProfileDetail, profilePath, type ProfileVersion, type Which, writerLink } from './profile-record';

/** A session that has ended writes for a moment longer, which no event announces: time between two looks. */
const LOOK = 2000;

export class ProfilePage implements Page {
  readonly topics: readonly Topic[] = ['sessions'];
  readonly title = 'Profile';
  readonly #answers = new Answers();
  #which: Which = { name: '', key_id: '' };
  #profile: ProfileDetail | undefined;
  #looking: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly failed: Failed) {
    find('profile-import').addEventListener('click', () => openImport(this.#which));
    find('profile-export').addEventListener('click', () => void this.#try('profile-problem', () => this.#export()));
    find('profile-delete').addEventListener('click', () => this.#delete());
  }

  show(id: string): void {
    const [name = '', key = document.body.dataset['key'] ?? ''] = id.split('/').map(decodeURIComponent);
    this.#which = { name, key_id: key };
    find('profile-body').hidden = true;
    for (const place of ['profile-problem', 'profile-versions-problem']) find(place).textContent = '';
    void this.#load();
  }

  hide(): void {
    clearTimeout(this.#looking);
    this.#which = { name: '', key_id: '' };
    this.#profile = undefined;
  }

  heard({ type }: ServerEvent): void {
    if (type === 'sessions' || type === 'hello') void this.#load();
  }

  async #load(): Promise<void> {
    const [which, newest] = [this.#which, this.#answers.ask()];
    clearTimeout(this.#looking);
    try {
      const profile = await json<ProfileDetail>('GET', profilePath(which));
      if (which !== this.#which || !newest()) return;
      find('profile-problem').textContent = '';
      find('profile-body').hidden = false;
      // A selection in what has not changed stays.
      if (JSON.stringify(profile) !== JSON.stringify(this.#profile)) this.#print(profile);
      if (profile.writer !== undefined) this.#looking = setTimeout(() => document.visibilityState === 'visible' && void this.#load(), LOOK);
    } catch (error) {
      if (which !== this.#which || !newest()) return;
      this.failed(error);
      if (!(error instanceof Refusal) || error.status === 401) return;
      this.#profile = undefined;
      find('profile-body').hidden = true;
      tell(find('profile-problem'), error.message);
    }
  }

  #print(profile: ProfileDetail): void {
    this.#profile = profile;
    const { name, versions } = profile;
    const own = isOwn(profile);
    find('profile-title').textContent = name;
    const link = writerLink(profile.writer);
    find('profile-writer').hidden = !link;
    if (link) find('profile-writer').replaceChildren('This profile is being written by ', link, '. Until that ends, nobody else can change or delete it. Sessions that only read it can begin.');
    const newest = versions[0];
    const facts: [string, Node | string][] = [
      ['Keeps', keeps(profile)],
      ['Size', newest ? bytes(newest.size) : '–'],
      ['Last saved', newest ? `${exactMoment(newest.saved)} (${ago(newest.saved)})` : 'never'],
      ['Last used', exactMoment(profile.used)],
      ['Made', moment(profile.created)],
      ['Key', own ? keyNames.of(profile.key_id) : `${keyNames.of(profile.key_id)}, whose sessions alone can use it`],
    ];
    find('profile-facts').replaceChildren(...facts.flatMap(([term, value]) => [make('dt', {}, term), make('dd', {}, value)]));
    for (const id of ['profile-use', 'profile-again']) find(id).hidden = !own;
    find<HTMLAnchorElement>('profile-use').href = `#/sessions/new/${segment(name)}`;
    find<HTMLAnchorElement>('profile-again').href = `#/new-profile/${segment(name)}`;
    const rows = versions.map((version) => this.#version(version, version === newest));
    find('profile-versions').replaceChildren(...(rows.length ? rows : [make('li', { class: 'none' }, 'None yet. A session that writes the profile makes one, and an import does.')]));
    const contents = profileContents(profile);
    find('profile-none').hidden = contents.length > 0;
    find('profile-none').textContent = profile.kind === 'folder' && newest ? 'Warmpool does not look into a browser’s folder.' : 'Nothing yet.';
    find('profile-contents').replaceChildren(...contents);
  }

  #version({ version, saved, session_id: session, size }: ProfileVersion, isNewest: boolean): HTMLElement {
    const by = session ? [', saved by ', make('a', { href: `#/sessions/${segment(session)}`, class: 'id', title: session }, session)] : [', imported or rolled back'];
    const note = make('span', { class: 'note' }, `${exactMoment(saved)}, ${bytes(size)}`, ...by);
    const button = (label: string, act: () => void) => {
      const made = make('button', { type: 'button', class: 'small' }, label, make('span', { class: 'unseen' }, ` version ${version}`));
      made.addEventListener('click', act);
      return made;
    };
    const save = button('Export', () => void this.#try('profile-versions-problem', () => this.#export(version)));
    const back = button('Roll back', () => this.#rollBack(version));
    return make('li', {}, make('span', { class: 'name' }, `Version ${version}${isNewest ? ', the newest' : ''}`, note), save, ...(isNewest ? [] : [back]));
  }

  #rollBack(version: number): void {
    const which = this.#which;
    confirmAct('Roll back?', `A new version of “${which.name}” is made, as version ${version} is. Later sessions begin with that; the versions between stay in the list.`, 'Roll back', async () => {
      await json('PUT', profilePath(which), { version });
      await this.#load();
    });
  }

  #delete(): void {
    const which = this.#which;
    confirmAct(`Delete “${which.name}” for good?`, 'All its versions go, and no backup brings them back. Sessions that have begun with it go on.', 'Delete for good', async () => {
      await json('DELETE', profilePath(which));
      if (which === this.#which) location.hash = '#/profiles';
    });
  }

  async #export(version?: number): Promise<void> {
    const { name } = this.#which;
    const [part, ending] = this.#profile?.kind === 'folder' ? ['/folder', 'tar.zst'] : ['/state', 'json'];
    const query = version === undefined ? {} : { version: String(version) };
    await download(profilePath(this.#which, part, query), version === undefined ? `${name}.${ending}` : `${name} ${version}.${ending}`);
  }

  async #try(place: string, act: () => Promise<void>): Promise<void> {
    find(place).textContent = '';
    try {
      await act();
    } catch (error) {
      this.failed(error);
      if (error instanceof Refusal) tell(find(place), error.message);
    }
  }
}
