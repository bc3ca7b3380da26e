// Imports a state from a file: as a new profile, or as a new version of one.

import { openForm, submit } from '../shared/dialogs';
import { find } from '../shared/dom';
import { json, Refusal } from '../shared/request';
import type { Failed } from './page';
import { openProfile, type Profile, profilePath, type Which } from './profile-record';

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
        const state = await readState(find<HTMLInputElement>('profile-import-file').files?.[0]);
        const made = into
          ? await json<Profile>('PUT', profilePath(into), `{"state":${state}}`)
          : await json<Profile>('POST', 'profiles', `{"name":${JSON.stringify(name)},"state":${state}}`);
        find<HTMLDialogElement>('profile-import-dialog').close();
        openProfile(made);
      } catch (error) {
        failed(error);
        throw plainly(error);
      }
    });
  });
}

/** The text of a file that may be a state; the daemon checks the rest. */
async function readState(file: File | undefined): Promise<string> {
  if (!file) throw wrong('Choose a file.');
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

/** Errors in the words of this page, where the daemon's speak of calls. */
function plainly(error: unknown): unknown {
  if (!(error instanceof Refusal)) return error;
  if (error.code === 'profile_exists') return new Refusal(error.status, error.code, 'There is a profile of this name already. Choose another name, or import on that profile’s page.', 'name');
  if (error.field?.startsWith('state')) return new Refusal(error.status, error.code, `The file cannot be used: ${error.message}`, 'file');
  return error;
}
