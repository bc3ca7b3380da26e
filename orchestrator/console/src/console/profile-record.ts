// Profiles as the API shows them, and where they are.

import { make } from '../shared/dom';
import { shortened } from '../shared/format';
import { segment } from '../shared/request';
import { engineName } from './session-record';

export interface ProfileVersion {
  version: number;
  saved: number;
  session_id?: string;
  size: number;
}

export interface Profile {
  name: string;
  kind: 'state' | 'folder';
  /** The engine whose folder it is. */
  engine?: string;
  key_id: string;
  created: number;
  used: number;
  /** The session that writes it; `starting` while that is being made. */
  writer?: string;
  versions: ProfileVersion[];
}

export interface HeldCookie {
  name: string;
  path: string;
  expires?: number;
}

export interface OriginContents {
  origin: string;
  local_storage: number;
  session_storage: number;
  databases: string[];
  files: number;
  size: number;
}

/** A profile, and what its newest version holds. */
export interface ProfileDetail extends Profile {
  cookies: { domain: string; cookies: number; list: HeldCookie[] }[];
  origins: OriginContents[];
}

/** Which profile: its name, and the key that it belongs to. */
export type Which = Pick<Profile, 'name' | 'key_id'>;

/** The address of its page. */
export const profilePage = ({ name, key_id: key }: Which): string => `#/profiles/${segment(name)}/${segment(key)}`;

/** The path of a call about it. */
export function profilePath({ name, key_id: key }: Which, rest = '', query: Record<string, string> = {}): string {
  return `profiles/${segment(name)}${rest}?${new URLSearchParams({ ...query, key_id: key })}`;
}

/** Whether it belongs to the key that is signed in: others' can be looked at and managed, but not used. */
export const isOwn = ({ key_id: key }: Which): boolean => key === document.body.dataset['key'];

/** What it keeps, in words. */
export function keeps({ kind, engine }: Profile): string {
  if (kind === 'state') return 'cookies and storage, for any browser';
  return engine === undefined ? 'the whole folder of one browser' : `the whole folder, for ${engineName(engine)} alone`;
}

/** Goes to the page of a profile, which shows what it holds now. */
export function openProfile(which: Which): void {
  const page = profilePage(which);
  if (location.hash === page) dispatchEvent(new HashChangeEvent('hashchange'));
  else location.hash = page;
}

/** The session that writes a profile, by its id or by the beginning of it. */
export function writerLink(writer: string | undefined, most = Infinity): HTMLElement | undefined {
  if (writer === undefined) return undefined;
  if (!writer.startsWith('ses_')) return make('span', {}, 'a session that is being made');
  return make('a', { href: `#/sessions/${segment(writer)}`, class: 'id', title: writer }, shortened(writer, most));
}
