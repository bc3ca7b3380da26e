// The list of sessions, with pictures of those that live.

import { find, make } from '../shared/dom';
import type { ServerEvent } from '../shared/events';
import { duration, exactMoment, shortMoment, shortened, statusTone } from '../shared/format';
import { List, type Meta } from '../shared/list';
import { json, request, segment } from '../shared/request';
import { badge, failureCode, row } from '../shared/table';
import { confirmAct } from '../shared/confirm';
import { keyCell } from './key-names';
import { IN_LIST, labelList, spreadLabels } from './labels';
import type { Failed, Page, Topic } from './page';
import { browserName, lives, type Session, steady } from './session-record';
import { Thumbnails } from './thumbnails';

/** How long a session's end waits for its last picture. */
const PICTURE_WITHIN = 1500;

export class SessionsPage implements Page {
  readonly topics: readonly Topic[] = ['sessions'];
  readonly title = 'Sessions';
  readonly #thumbnails = new Thumbnails();
  readonly #pictures = find<HTMLInputElement>('sessions-pictures');
  readonly #list: List<Session>;
  #ticking: ReturnType<typeof setInterval> | undefined;

  constructor(failed: Failed) {
    this.#list = new List<Session>({
      prefix: 'sessions',
      names: ['session', 'sessions'],
      empty: 'There is no session yet. Create one here, or let a program ask for one.',
      load: async (query) => {
        spreadLabels(query);
        const { sessions, meta } = await json<{ sessions: Session[]; meta: Meta }>('GET', `sessions?${query}`);
        // The page counts a live session's duration itself.
        return { rows: sessions.map(steady), meta };
      },
      key: (session) => session.session_id,
      draw: (session) => this.#row(session),
      failed,
    });
    this.#pictures.addEventListener('change', () => {
      find('sessions').dataset['pictures'] = String(this.#pictures.checked);
      if (this.#pictures.checked) this.#thumbnails.start();
      else this.#thumbnails.stop();
    });
  }

  show(): void {
    void this.#list.load();
    if (this.#pictures.checked) this.#thumbnails.start();
    this.#ticking = setInterval(tick, 1000);
  }

  hide(): void {
    this.#thumbnails.stop();
    clearInterval(this.#ticking);
    this.#list.clear();
  }

  heard({ type }: ServerEvent): void {
    if (type === 'sessions' || type === 'hello') void this.#list.refresh();
  }

  #row(session: Session): HTMLElement {
    const { session_id: id } = session;
    const address = `#/sessions/${segment(id)}`;
    const live = lives(session);
    const picture = this.#thumbnails.image(id);
    const open = make('a', { href: address, 'data-focus': `${id} open`, class: 'id', title: id }, shortened(id, 16));
    const time = make('time', { datetime: new Date(session.timestamp).toISOString(), title: exactMoment(session.timestamp) }, shortMoment(session.timestamp));
    const lasted = live ? make('span', { class: 'number', 'data-since': String(session.timestamp) }) : make('span', { class: 'number' }, duration(session.execution_time));
    tickOne(lasted);
    let end: Node | string = '';
    if (live) {
      end = make('button', { type: 'button', class: 'small', 'data-focus': `${id} end` }, 'End', make('span', { class: 'unseen' }, ` ${id}`));
      end.addEventListener('click', () => terminate(id, () => this.#list.refresh()));
    }
    const notes = [session.app_name, session.service_passcode].filter((note): note is string => Boolean(note));
    return row(
      { 'data-live': String(live) },
      ['Picture', make('a', { href: address, tabindex: '-1', 'aria-hidden': 'true' }, picture)],
      ['Session', make('span', { class: 'name' }, open, ...notes.map((note) => make('span', { class: 'note' }, shortened(note, 80))), ...labelList(session.metadata, IN_LIST))],
      ['Status', make('span', {}, badge(session.status, statusTone(session.status)), reasonOf(session))],
      ['Browser', make('span', {}, browserName(session), make('span', { class: 'note' }, session.kind))],
      ['Page', make('span', { class: 'page-url', title: session.url ?? '' }, shortened(session.url ?? '–', 120))],
      ['Created', time],
      ['Duration', lasted],
      ['Key', keyCell(session.key_id)],
      ['', end],
    );
  }
}

/** Asks, and ends a session. */
export function terminate(id: string, then: () => unknown): void {
  confirmAct('End the session?', `Its browser closes at once, and clients that use it are cut off. Session ${id}.`, 'End', async () => {
    await keepPicture(id);
    await json('DELETE', `sessions/${segment(id)}`);
    await then();
  });
}

/** Asks for a picture, which the daemon keeps for when the session has ended. None is as good. */
export async function keepPicture(id: string): Promise<void> {
  const signal = AbortSignal.timeout(PICTURE_WITHIN);
  await request('GET', `sessions/${segment(id)}/thumbnail`, { signal }).catch(() => undefined);
}

/** Why a session ended; a failure stands out. */
export function reasonOf(session: Session): HTMLElement {
  const failed = session.status === 'failure' && session.reason;
  return make('span', { class: 'note' }, failed ? failureCode(failed) : session.reason === 'deleted' ? 'by request' : (session.reason ?? '').replaceAll('_', ' '));
}

function tickOne(element: HTMLElement): void {
  const since = Number(element.dataset['since']);
  if (since) element.textContent = duration(Math.max(1000, Math.floor((Date.now() - since) / 1000) * 1000));
}

function tick(): void {
  if (document.visibilityState === 'visible') document.querySelectorAll<HTMLElement>('#sessions-rows [data-since]').forEach(tickOne);
}
