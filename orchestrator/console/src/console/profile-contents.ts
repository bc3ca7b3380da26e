// What the newest version of a profile holds: names, dates and sizes, never a value.

import { make } from '../shared/dom';
import { bytes, counted, moment } from '../shared/format';
import type { HeldCookie, OriginContents, ProfileDetail } from './profile-record';

/** Hosts with up to so many cookies show them at once. */
const MOST_OPEN = 12;

export function profileContents({ cookies, origins }: ProfileDetail): HTMLElement[] {
  const hosts = cookies.map(({ domain, list }) => {
    const head = make('summary', {}, make('b', {}, domain), ` ${counted(list.length, 'cookie', 'cookies')}`);
    const details = make('details', { class: 'host' }, head, make('ul', { class: 'list' }, ...list.map(cookieRow)));
    details.open = list.length <= MOST_OPEN;
    return details;
  });
  const stores = origins.map((origin) => make('li', {}, make('span', { class: 'name' }, make('b', {}, origin.origin), make('span', { class: 'note' }, storage(origin))), make('span', { class: 'number' }, bytes(origin.size))));
  return [
    ...(hosts.length ? [make('h3', {}, 'Cookies'), ...hosts] : []),
    ...(stores.length ? [make('h3', {}, 'Storage of origins'), make('ul', { class: 'list' }, ...stores)] : []),
  ];
}

function cookieRow({ name, path, expires }: HeldCookie): HTMLElement {
  const ends = expires === undefined ? 'no date of expiry' : `${expires < Date.now() ? 'expired' : 'expires'} ${moment(expires)}`;
  const where = path === '/' ? '' : `${path}, `;
  return make('li', {}, make('code', { class: 'name' }, name || '(no name)'), make('span', { class: 'hint' }, `${where}${ends}`));
}

function storage({ local_storage: local, session_storage: session, databases, files }: OriginContents): string {
  const parts = [
    local ? `local storage: ${counted(local, 'entry', 'entries')}` : '',
    session ? `session storage: ${counted(session, 'entry', 'entries')}` : '',
    databases.length ? `${counted(databases.length, 'database', 'databases')}: ${databases.join(', ')}` : '',
    files ? counted(files, 'private file', 'private files') : '',
  ];
  return parts.filter(Boolean).join('; ');
}
