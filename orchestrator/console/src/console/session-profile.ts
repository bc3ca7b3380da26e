// The profile of a session: what is said of it beside the live view, and its end with a save.

import { find, inline, make, tell } from '../shared/dom';
import { exactMoment } from '../shared/format';
import { json, Refusal, segment } from '../shared/request';
import { sentence } from '../shared/text';
import type { Failed } from './page';
import { openProfile, profilePage } from './profile-record';
import { lives, type Session } from './session-record';
import { keepPicture } from './sessions';

/** The profile among the facts of a session. */
export function profileFact(session: Session): Node | undefined {
  const { profile, key_id } = session;
  if (!profile) return undefined;
  const link = make('a', { href: profilePage({ name: profile.name, key_id }) }, profile.name);
  const saved = profile.saved_at === undefined ? 'not saved yet' : `saved ${exactMoment(profile.saved_at)}`;
  const failure = profile.error === undefined ? [] : [make('span', { class: 'note problem' }, 'The last save did not take all: ', ...inline(sentence(profile.error)))];
  return make('span', {}, link, make('span', { class: 'note' }, profile.is_written ? saved : 'read, not saved'), ...failure);
}

/** The note beside the live view of a session that writes a profile. */
export class SessionProfileNote {
  #session: Session | undefined;
  #ending = '';

  constructor(private readonly failed: Failed) {
    find('session-profile-save').addEventListener('click', () => void this.#save());
  }

  clear(): void {
    this.#session = undefined;
    this.#ending = '';
    find('session-profile').hidden = true;
    find('session-profile-problem').textContent = '';
  }

  show(session: Session): void {
    this.#session = session;
    const { profile } = session;
    const problem = find('session-profile-problem');
    find('session-profile').hidden = !(profile?.is_written && (lives(session) || problem.textContent));
    if (!profile) return;
    find('session-profile-save').hidden = !lives(session);
    const text = find('session-profile-text');
    if (text.dataset['name'] === profile.name) return;
    text.dataset['name'] = profile.name;
    text.replaceChildren('This session writes the profile ', make('b', {}, profile.name), '. Sign in below, then save: what the browser keeps for its sites is saved when the session ends, and every now and then before.');
  }

  /** Ends the session, which saves the profile, and shows what that holds then. */
  async #save(): Promise<void> {
    const session = this.#session;
    if (!session?.profile || this.#ending) return;
    const { session_id: id, key_id } = session;
    const button = find<HTMLButtonElement>('session-profile-save');
    this.#ending = id;
    button.disabled = true;
    button.textContent = 'Saving…';
    find('session-profile-problem').textContent = '';
    try {
      await keepPicture(id);
      // It answers once the last save is done.
      const { profile } = await json<Session>('DELETE', `sessions/${segment(id)}`);
      if (this.#ending !== id) return;
      if (profile?.error === undefined) return openProfile({ name: session.profile.name, key_id });
      tell(find('session-profile-problem'), `Not all was saved: ${sentence(profile.error)} What was saved before is still there.`);
    } catch (error) {
      if (this.#ending !== id) return;
      this.failed(error);
      if (error instanceof Error) tell(find('session-profile-problem'), error instanceof Refusal ? error.message : 'Warmpool does not answer. Try again.');
    } finally {
      this.#ending = '';
      button.disabled = false;
      button.textContent = 'Save and end';
    }
  }
}
