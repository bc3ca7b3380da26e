// Imports a state or a packed folder from a file: as a new profile, or as a new version of one.

import { openForm, submit } from '../shared/dialogs';
import { find } from '../shared/dom';
import { json, Refusal, request } from '../shared/request';
import type { Failed } from './page';
import { isOwn, openProfile, type Profile, profilePath, type Which } from './profile-record';

let into: Which | undefined;

/** Asks for the file, and for a name where it is to be a new profile. */
export function openImport(profile?: Which): void {
  into = profile;
  const name = find<HTMLInputElement>('profile-import-name');
  find<HTMLFormElement>('profile-import-form').reset();
  name.value = profile?.name ?? '';
  name.readOnly = profile !== undefined;
  find('profile-import-title').textContent = profile ? `Import into “${profile.name}”` : 'Import a profile';
  openForm('profile-import-dialog');
}

export function prepareImport(failed: Failed): void {
  const form = find<HTMLFormElement>('profile-import-form');
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    void submit(form, async () => {
      try {
        const name = find<HTMLInputElement>('profile-import-name').value.trim();
        const made = await send(name, find<HTMLInputElement>('profile-import-file').files?.[0]);
        find<HTMLDialogElement>('profile-import-dialog').close();
        openProfile(made);
      } catch (error) {
        failed(error);
        throw plainly(error);
      }
    });
  });
}

/** Makes a version of a file, or a profile. */
async function send(name: string, file: File | undefined): Promise<Profile> {
  if (!file) throw wrong('Choose a file.');
  if (await isPacked(file)) {
    if (!into && (await isThere(name))) throw taken(409, 'profile_exists');
    const which = into ?? { name, key_id: document.body.dataset['key'] ?? '' };
    return (await (await request('PUT', profilePath(which, '/folder'), { body: file })).json()) as Profile;
  }
  const state = await readState(file);
  if (into) return json<Profile>('PUT', profilePath(into), `{"state":${state}}`);
  return json<Profile>('POST', 'profiles', `{"name":${JSON.stringify(name)},"state":${state}}`);
}

async function isThere(name: string): Promise<boolean> {
  const { profiles } = await json<{ profiles: Profile[] }>('GET', 'profiles');
  return profiles.some((profile) => isOwn(profile) && profile.name === name);
}

/** What packed folders begin with: zstd's mark. */
const PACKED = [0x28, 0xb5, 0x2f, 0xfd];

async function isPacked(file: File): Promise<boolean> {
  const beginning = new Uint8Array(await file.slice(0, PACKED.length).arrayBuffer());
  return PACKED.every((byte, at) => beginning[at] === byte);
}

/** The text of a file that may be a state; the daemon checks the rest. */
async function readState(file: File): Promise<string> {
  const text = await file.text();
  let state: unknown;
  try {
    state = JSON.parse(text);
  } catch {
    throw wrong(`“${file.name}” is not JSON. An export of a profile is, and so is what Playwright’s storageState writes.`);
  }
  if (typeof state !== 'object' || state === null || Array.isArray(state)) throw wrong(`“${file.name}” holds no state: that is an object with cookies and origins.`);
  return text;
}

const wrong = (text: string) => new Refusal(400, 'invalid_file', text, 'file');

const taken = (status: number, code: string) => new Refusal(status, code, 'There is a profile of this name already. Choose another name, or import on that profile’s page.', 'name');

/** Errors in the words of this page, where the daemon's speak of calls. */
function plainly(error: unknown): unknown {
  if (!(error instanceof Refusal)) return error;
  if (error.code === 'profile_exists') return taken(error.status, error.code);
  if (error.code === 'invalid_body' || error.field?.startsWith('state')) return new Refusal(error.status, error.code, `The file cannot be used: ${error.message}`, 'file');
  return error;
}
