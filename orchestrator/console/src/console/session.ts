// One session: its live view and its actions.

import { Answers } from '../shared/answers';
import { attend } from '../shared/attention';
import { find, inline, make, tell } from '../shared/dom';
import type { ServerEvent } from '../shared/events';
import { bytes, counted, duration, exactMoment, statusTone } from '../shared/format';
import { json, Refusal, request, segment } from '../shared/request';
import { badge, failureCode } from '../shared/table';
import { fitting, linesFor } from './client-lines';
import { codeBox } from './code';
import { keyNames } from './key-names';
import type { Failed, Page, Topic } from './page';
import { labelList } from './labels';
import { SessionFiles } from './session-files';
import { SessionLog } from './session-log';
import { profileFact, SessionProfileNote } from './session-profile';
import { browserName, lives, type SessionDetail } from './session-record';
import { SessionRecording } from './session-recording';
import { SessionShares } from './session-shares';
import { keepPicture, terminate } from './sessions';

export class SessionPage implements Page {
  readonly topics: readonly Topic[] = ['sessions'];
  readonly title = 'Session';
  readonly #act = find<HTMLInputElement>('session-act');
  readonly #view = find<HTMLIFrameElement>('session-view');
  readonly #files: SessionFiles;
  readonly #shares: SessionShares;
  readonly #recording: SessionRecording;
  readonly #log: SessionLog;
  readonly #profile: SessionProfileNote;
  #id = '';
  readonly #answers = new Answers();
  #session: SessionDetail | undefined;
  #shown = '';
  /** The last picture of an ended session. */
  #picture = '';
  #ticking: ReturnType<typeof setInterval> | undefined;

  constructor(private readonly failed: Failed) {
    this.#files = new SessionFiles(failed);
    this.#shares = new SessionShares(failed);
    this.#recording = new SessionRecording(failed);
    this.#log = new SessionLog(failed);
    this.#profile = new SessionProfileNote(failed);
    this.#act.addEventListener('change', () => this.#print());
    // What is done in the view is done in the console. Each page that it loads has a window of its own.
    this.#view.addEventListener('load', () => attend(this.#view.contentWindow));
    find('session-end').addEventListener('click', () => terminate(this.#id, () => this.#load()));
  }

  show(id: string): void {
    this.#id = id;
    this.#session = undefined;
    find('session-body').hidden = true;
    find('session-problem').textContent = '';
    void this.#load();
    this.#ticking = setInterval(() => this.#facts(), 1000);
  }

  hide(): void {
    clearInterval(this.#ticking);
    this.#id = '';
    this.#shown = '';
    // Close the live view, so that nobody watches unseen.
    this.#closeView();
    this.#forgetPicture();
    this.#files.clear();
    this.#shares.clear();
    this.#recording.clear();
    this.#log.clear();
    this.#profile.clear();
  }

  rest(): void {
    this.#log.rest();
  }

  heard({ type }: ServerEvent): void {
    if (type === 'sessions' || type === 'hello') void this.#load();
  }

  async #load(): Promise<void> {
    const [id, newest] = [this.#id, this.#answers.ask()];
    try {
      const session = await json<SessionDetail>('GET', `sessions/${segment(id)}`);
      if (id !== this.#id || !newest()) return;
      const before = this.#session;
      this.#session = { ...session, time_left: session.time_left === undefined ? 0 : Date.now() + session.time_left };
      find('session-problem').textContent = '';
      find('session-body').hidden = false;
      this.#print();
      if (!before || lives(before) !== lives(session)) {
        void this.#files.show(id, lives(session));
        void this.#shares.show(id, lives(session));
        void this.#recording.show(id, session.recording, lives(session));
        void this.#log.show(session, lives(session));
        if (lives(session)) void keepPicture(id);
        else if (!before) void this.#showLast(id);
      } else void this.#log.resume(session, lives(session));
    } catch (error) {
      if (id !== this.#id || !newest()) return;
      this.failed(error);
      if (error instanceof Refusal && error.status !== 401) {
        find('session-body').hidden = true;
        tell(find('session-problem'), error.message);
      }
    }
  }

  #print(): void {
    const session = this.#session;
    if (!session) return;
    const live = lives(session);
    for (const id of ['session-end', 'session-act-label', 'session-open', 'session-connect']) find(id).hidden = !live;
    this.#facts();
    this.#profile.show(session);
    find('session-last').hidden = live || !this.#picture;
    if (!live) find('session-ended').textContent = `The session has ended: ${session.message ?? session.reason ?? session.status}.`;
    // From the origin of this page, whichever name the daemon calls itself by.
    const view = session.livestream_url ? new URL(session.livestream_url, location.href) : undefined;
    if (view && this.#act.checked) view.searchParams.set('enable_actions', 'true');
    const address = live && view ? view.pathname + view.search : '';
    if (address !== this.#shown) {
      this.#shown = address;
      if (address) {
        this.#go(address);
        this.#view.hidden = false;
        find<HTMLAnchorElement>('session-open').href = address;
        find('session-code').replaceChildren(...codeBox(fitting(session.browser_type, session.kind), (client) => linesFor(client, session)));
      }
      // Where somebody watched a session until its end, the view keeps its last picture, and says how it ended.
      else if (live) this.#closeView();
    }
    find('session-ended').hidden = live || !this.#view.hidden;
    if (session.kind === 'task') find('session-connect').hidden = true;
  }

  #closeView(): void {
    this.#view.hidden = true;
    this.#go('about:blank');
  }

  /** Goes to an address in the view. The browser's history has the pages of the console alone, so that its Back button leads to these. */
  #go(address: string): void {
    this.#view.contentWindow?.location.replace(address);
  }

  /** Shows the last picture of an ended session, if the daemon has one. */
  async #showLast(id: string): Promise<void> {
    const reply = await request('GET', `sessions/${segment(id)}/thumbnail`).catch(() => undefined);
    const picture = reply?.status === 200 ? await reply.blob() : undefined;
    if (id !== this.#id || !picture) return;
    this.#forgetPicture();
    this.#picture = URL.createObjectURL(picture);
    find<HTMLImageElement>('session-last').src = this.#picture;
    this.#print();
  }

  #forgetPicture(): void {
    if (this.#picture) URL.revokeObjectURL(this.#picture);
    this.#picture = '';
    find('session-last').hidden = true;
  }

  #facts(): void {
    const session = this.#session;
    if (!session) return;
    const live = lives(session);
    const left = live ? Math.max(0, (session.time_left ?? 0) - Date.now()) : undefined;
    const traffic = session.egress;
    const facts: [string, Node | string | undefined][] = [
      ['Status', badge(session.status, statusTone(session.status))],
      ['Ended', session.status === 'failure' && session.reason ? make('span', {}, failureCode(session.reason), ' ', ...inline(session.message ?? '')) : (session.message ?? session.reason)],
      ['Id', make('code', {}, session.session_id)],
      ['Browser', browserName(session)],
      ['Made by', session.kind],
      ['Key', keyNames.of(session.key_id)],
      ['Page', session.url ?? undefined],
      ['Page error', session.page_error],
      ['Created', exactMoment(session.timestamp)],
      ['Duration', live ? undefined : duration(session.execution_time)],
      ['Time left', left === undefined ? undefined : duration(Math.ceil(left / 1000) * 1000)],
      ['Ends when idle', session.idle_timeout === undefined ? undefined : `for ${counted(session.idle_timeout, 'second', 'seconds')}`],
      ['Stays', session.keep_alive ? 'when its client disconnects' : undefined],
      ['App', session.app_name],
      ['End user', session.service_passcode],
      ['Profile', profileFact(session)],
      ['Labels', labelList(session.metadata)[0]],
      ['Traffic', traffic ? `${bytes(traffic.bytes_in)} in, ${bytes(traffic.bytes_out)} out` : undefined],
      ['Refused', traffic?.refused?.length ? traffic.refused.map(({ host, port, reason, count }) => `${host}:${port} ${reason} (${count})`).join(', ') : undefined],
      ['Ads blocked', session.ads ? String(session.ads.blocked) : undefined],
    ];
    const shown = facts.filter((fact): fact is [string, Node | string] => fact[1] !== undefined);
    const list = find('session-facts');
    const text = JSON.stringify([shown.map(([term]) => term), session]);
    if (list.dataset['text'] === text) {
      // Only the time moves on: a selection in the list stays.
      const time = list.querySelector('[data-term="Time left"]');
      if (time && left !== undefined) time.textContent = duration(Math.ceil(left / 1000) * 1000);
      return;
    }
    list.dataset['text'] = text;
    list.replaceChildren(...shown.flatMap(([term, value]) => [make('dt', {}, term), make('dd', { 'data-term': term }, value)]));
  }
}
