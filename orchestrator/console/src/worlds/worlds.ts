// The console's page for worlds: sign-in, integration keys, request log.

import { find } from '../shared/dom';
import { api, Refusal, Unreachable } from './api';
import { closeDialogs, prepareDialogs, submit } from './dialogs';
import { IntegrationKeys } from './integration-keys';
import { RequestLog } from './request-log';
import { WorldDialog } from './world-dialog';

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 10_000;

let signedIn = false;
let pause = FIRST_PAUSE;
let retry: ReturnType<typeof setTimeout> | undefined;

const world = new WorldDialog(failed);
const log = new RequestLog(failed, (id) => world.open(id));
const keys = new IntegrationKeys(failed, (list) => log.setKeys(list));

/** What concerns the whole page. What a form or a table shows itself is left to them. */
function failed(error: unknown): void {
  if (error instanceof Refusal && error.status === 401) return showSignIn(signedIn ? 'You were signed out. Sign in again to go on.' : '');
  // A refused request is no reason to ask again.
  if (error instanceof Refusal) return;
  if (!(error instanceof Unreachable)) throw error;
  find('offline').hidden = false;
  if (retry) return;
  retry = setTimeout(() => {
    retry = undefined;
    void start();
  }, pause);
  pause = Math.min(pause * 1.6, LONGEST_PAUSE);
}

function showSignIn(note: string): void {
  clearTimeout(retry);
  retry = undefined;
  signedIn = false;
  closeDialogs();
  keys.clear();
  log.clear();
  find('app').hidden = find('account').hidden = find('offline').hidden = find('loading').hidden = true;
  find('sign-in').hidden = false;
  find('signed-out').textContent = note;
  find<HTMLInputElement>('key').focus();
}

async function start(): Promise<void> {
  let name: string;
  try {
    ({ name } = await api.who());
  } catch (error) {
    if (error instanceof Refusal && error.status !== 401) {
      find('loading').hidden = true;
      find('start-problem').textContent = error.message;
    } else failed(error);
    return;
  }
  signedIn = true;
  pause = FIRST_PAUSE;
  find('start-problem').textContent = '';
  find('offline').hidden = find('sign-in').hidden = find('loading').hidden = true;
  find('app').hidden = find('account').hidden = false;
  find('account-name').textContent = name;
  await Promise.all([keys.load(), log.load()]);
}

prepareDialogs();

const form = find<HTMLFormElement>('sign-in-form');
form.addEventListener('submit', (event) => {
  event.preventDefault();
  const key = find<HTMLInputElement>('key');
  void submit(form, async () => {
    const given = key.value.trim();
    await api.signIn(given);
    key.value = '';
    find('signed-out').textContent = '';
    await start();
  });
});

find('sign-out').addEventListener('click', async () => {
  try {
    await api.signOut();
    showSignIn('');
  } catch (error) {
    failed(error);
  }
});

find('keys-reload').addEventListener('click', () => void keys.load());
window.addEventListener('online', () => !find('offline').hidden && void start());

void start();
