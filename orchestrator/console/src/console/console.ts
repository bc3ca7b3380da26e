// The console: its sign-in, the page in view, and the daemon's events.

import { attend } from '../shared/attention';
import { closeDialogs, prepareDialogs, submit } from '../shared/dialogs';
import { find, linkCodes, tell } from '../shared/dom';
import type { ServerEvent } from '../shared/events';
import { json, Refusal, segment, Unreachable } from '../shared/request';
import { prepareFolds } from '../shared/filters';
import { prepareSecret } from '../shared/secret';
import { ExtensionsPage } from './extensions';
import { keyNames } from './key-names';
import { KeysPage } from './keys';
import { LogPage } from './log';
import { NewProfilePage } from './new-profile';
import { NewSessionPage } from './new-session';
import { NewTaskPage } from './new-task';
import { OverviewPage } from './overview';
import type { Account, Page } from './page';
import { ProfilePage } from './profile';
import { prepareImport } from './profile-import';
import { ProfilesPage } from './profiles';
import { SessionPage } from './session';
import { SessionsPage } from './sessions';
import { Stream } from './stream';
import { TaskPage } from './task';
import { TasksPage } from './tasks';
import { UnknownPage } from './unknown';
import { WorldsPage } from './worlds';

let account: Account | undefined;
let shown: { name: string; page: Page } | undefined;

const pages: Record<string, Page> = {
  overview: new OverviewPage(failed),
  sessions: new SessionsPage(failed),
  'new-session': new NewSessionPage(failed),
  session: new SessionPage(failed),
  tasks: new TasksPage(failed),
  'new-task': new NewTaskPage(failed),
  task: new TaskPage(failed),
  profiles: new ProfilesPage(failed),
  'new-profile': new NewProfilePage(failed),
  profile: new ProfilePage(failed),
  extensions: new ExtensionsPage(failed),
  keys: new KeysPage(failed),
  log: new LogPage(failed),
  worlds: new WorldsPage(failed),
  unknown: new UnknownPage(),
};

const stream = new Stream(heard, found, lost, failed);

/** The pages of the navigation, which have no more in their address than their name. */
const LISTED = new Set(['overview', 'sessions', 'tasks', 'profiles', 'extensions', 'keys', 'log', 'worlds']);

/** The page of an address, and the rest of the address. */
function meant(address: string): [name: string, id: string] {
  const parts = address.replace(/^#\/?/, '').split('/').map((part) => decodePart(part));
  const [first = '', second = '', third = '', ...more] = parts;
  if (more.some(Boolean)) return ['unknown', address];
  // A profile's name, and the key that it belongs to. It may be any name, so the form has an address of its own.
  if (first === 'profiles' && second) return ['profile', parts.slice(1).filter(Boolean).map(segment).join('/')];
  if (first === 'new-profile') return third ? ['unknown', address] : ['new-profile', second];
  if (first === 'sessions' && second === 'new') return ['new-session', third];
  if (third) return ['unknown', address];
  if (first === 'sessions' && second) return ['session', second];
  if (first === 'tasks' && second) return second === 'new' ? ['new-task', ''] : ['task', second];
  if (first === '') return ['overview', ''];
  return !second && LISTED.has(first) ? [first, ''] : ['unknown', address];
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function route(focus: boolean): void {
  if (!account) return;
  const [name, id] = meant(location.hash);
  const page = pages[name] as Page;
  closeDialogs();
  shown?.page.hide();
  for (const element of document.querySelectorAll<HTMLElement>('.page')) element.hidden = element.id !== `page-${name}`;
  shown = { name, page };
  for (const link of document.querySelectorAll('#pages a[href^="#"]')) {
    if (meant(link.getAttribute('href') ?? '')[0] === name.replace(/^new-/, '').replace(/^(session|task|profile)$/, '$1s')) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  find('heading').textContent = page.title;
  document.title = `${page.title} – Warmpool`;
  if (focus) {
    scrollTo(0, 0);
    find('heading').focus({ preventScroll: true });
  }
  page.show(id);
  if (document.visibilityState === 'visible') stream.start(page.topics);
}

function heard(event: ServerEvent): void {
  if (event.type === 'signed-out') return showSignIn('Your sign-in has ended. Sign in again to go on.');
  if (event.type === 'hello') {
    const { key_id: key, started_at: started } = JSON.parse(event.data) as { key_id: string; started_at: number };
    // While the page was in the background and its stream closed, somebody else may have signed in, in another tab.
    if (account && key !== account.key_id) return startOver();
    if (account && started !== account.started_at) {
      account.started_at = started;
      say('Warmpool was restarted. What you see is up to date again.');
    }
  }
  shown?.page.heard(event);
}

/** The daemon gave a sign of life. What it did not answer before then may have been one call alone. */
function found(): void {
  find('offline').hidden = true;
}

function lost(refusal?: Refusal): void {
  tell(find('offline'), `${refusal?.message ?? 'Warmpool does not answer.'} Trying again…`);
  find('offline').hidden = false;
}

function say(text: string): void {
  find('notice-text').textContent = text;
  find('notice').hidden = false;
}

/** What concerns the whole page. What a form or a table shows itself is left to them. */
function failed(error: unknown): void {
  if (error instanceof Refusal) {
    // A key may have been refused that is not the one that is signed in.
    if (error.status === 401) void start();
    return;
  }
  if (!(error instanceof Unreachable)) throw error;
  lost();
}

function showSignIn(note: string): void {
  stream.stop();
  shown?.page.hide();
  shown = undefined;
  account = undefined;
  closeDialogs('dialog[open]');
  for (const id of ['app', 'account', 'pages', 'offline', 'notice', 'loading']) find(id).hidden = true;
  find('sign-in').hidden = false;
  find('signed-out').textContent = note;
  find('heading').textContent = 'Sign in';
  document.title = 'Sign in – Warmpool';
  find<HTMLInputElement>('key').focus();
}

/** Forgets what somebody left in the page, since the next one may be another person. */
function startOver(): void {
  // Some browsers keep what is in forms when a page is loaded again.
  for (const left of document.querySelectorAll('form')) left.reset();
  location.reload();
}

let retry: ReturnType<typeof setTimeout> | undefined;

async function start(): Promise<void> {
  clearTimeout(retry);
  const before = account;
  try {
    account = await json<Account>('GET', 'console/sign-in');
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return showSignIn(before ? 'You were signed out. Sign in again to go on.' : '');
    if (error instanceof Refusal) {
      find('loading').hidden = true;
      tell(find('start-problem'), error.message);
      return;
    }
    lost();
    retry = setTimeout(() => void start(), 2000);
    return;
  }
  const last = document.body.dataset['key'];
  if (last !== undefined && last !== account.key_id) return startOver();
  if (before && shown) return;
  find('start-problem').textContent = '';
  for (const id of ['offline', 'sign-in', 'loading']) find(id).hidden = true;
  for (const id of ['app', 'account', 'pages']) find(id).hidden = false;
  find('account-name').textContent = account.name;
  find('account-role').textContent = account.role;
  const operates = account.role === 'operator';
  document.body.dataset['role'] = account.role;
  document.body.dataset['key'] = account.key_id;
  for (const element of document.querySelectorAll<HTMLElement>('[data-operator]')) element.hidden = !operates;
  void keyNames.load(failed);
  route(false);
}

attend(window);
prepareDialogs();
prepareSecret();
prepareFolds();
prepareImport(failed);
linkCodes((code) => (/^ses_[\w-]+$/.test(code) ? `#/sessions/${segment(code)}` : undefined));

const form = find<HTMLFormElement>('sign-in-form');
form.addEventListener('submit', (event) => {
  event.preventDefault();
  const key = find<HTMLInputElement>('key');
  void submit(form, async () => {
    if (!key.value.trim()) throw new Refusal(401, 'missing_key', 'No key. Paste one into the field above.', 'key');
    try {
      await json<void>('POST', 'console/sign-in', { key: key.value.trim() });
    } catch (error) {
      if (!(error instanceof Refusal && error.code === 'invalid_key')) throw error;
      throw new Refusal(401, error.code, 'Warmpool does not know this key. It may be cut off, revoked, or another daemon’s.', 'key');
    }
    key.value = '';
    find('signed-out').textContent = '';
    await start();
  });
});

find('sign-out').addEventListener('click', async () => {
  try {
    await json<void>('DELETE', 'console/sign-in');
    startOver();
  } catch (error) {
    failed(error);
  }
});
find('notice-close').addEventListener('click', () => (find('notice').hidden = true));

window.addEventListener('hashchange', () => route(true));
window.addEventListener('online', () => stream.hurry());
// Nobody looks: nothing is asked for.
document.addEventListener('visibilitychange', () => {
  if (!account || !shown) return;
  if (document.visibilityState === 'visible') stream.start(shown.page.topics);
  else {
    stream.stop();
    shown.page.rest?.();
  }
});

void start();
