// An operator in the console, in a browser of this machine, driven by Playwright. FLOW names what they do, and SHOTS an
// optional folder for screenshots.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import { api, headers, look, says, signedIn, SIZES, visit } from './console_page.mjs';
import { accessible, go, open, perform, shot, text } from './live_page.mjs';
import { until } from './session.mjs';

const env = process.env;
const flows = { sessions, tasks, keys, extremes, restart };
const MARKUP = '<img src=x onerror="document.title=1">';

/** Signs in, looks at the overview, makes a session, shares it and ends it. */
async function sessions() {
  const page = await open(`${env.WARMPOOL_URL}/console/`);
  await page.waitForSelector('#sign-in', { state: 'visible' });
  // People hear what is missing, and where it is.
  assert.match(await text(page, 'sign-in-hint'), /\.warmpool\/env.*first-key.*warmpool key create/);
  await page.fill('#key', ' ');
  await page.keyboard.press('Enter');
  await says(page, '#sign-in-problem', 'No key');
  await page.fill('#key', 'wp_wrong');
  await page.keyboard.press('Enter');
  await says(page, '#sign-in-problem', 'does not know this key');
  await look(page, 'sign-in');
  await page.fill('#key', env.WARMPOOL_SECRET_KEY);
  await page.keyboard.press('Enter');
  await page.waitForSelector('#app', { state: 'visible' });
  await says(page, '#pool-rows', 'Chromium');
  await says(page, '#doctor-findings', 'fine');
  await page.waitForSelector('#charts canvas');
  await look(page, 'overview');

  // A session by the form: its picture in the list, its live view, and its end.
  await visit(page, 'Sessions');
  await says(page, '#sessions-empty', 'There is no session yet');
  await page.click('a[href="#/sessions/new"]');
  await page.check('input[name=headless]');
  await page.fill('#ns-url', `${env.SITE_URL}/turn`);
  await page.fill('#ns-timeout', '0');
  await until('the lines to name the page', async () => (await page.inputValue('#new-session-code textarea')).includes('/turn'));
  await look(page, 'new-session');
  await page.locator('#new-session-form button[type=submit]').click();
  await says(page, '#new-session-form .problem', 'session_timeout');
  await page.fill('#ns-timeout', '600');
  await page.check('input[name=keep_alive]');
  await page.check('input[name=logs]');
  // The log's stream breaks at first.
  await page.route(/\/logs\?follow=true/, (route) => route.abort(), { times: 1 });
  await page.locator('#new-session-form button[type=submit]').click();
  await page.waitForSelector('#session-view', { state: 'visible' });
  const id = page.url().split('/').at(-1);
  const view = page.frameLocator('#session-view');
  await view.locator('#stage[data-picture=true]').waitFor({ timeout: 30_000 });
  assert.match(await page.inputValue('#session-code textarea'), /connectOverCDP\("ws:/);
  await page.locator('#session-share-form button[type=submit]').click();
  await until('a link', async () => (await page.locator('#session-shares input').count()) === 1);
  await page.setInputFiles('#session-upload', { name: '<b>tea.txt', mimeType: 'text/plain', buffer: Buffer.from('Sencha') });
  await says(page, '#session-file-list', '<b>tea.txt');
  await uploadsElsewhere(page);
  // What its page does from now on is followed.
  await follows(page);
  await look(page, 'session');
  await visit(page, 'Sessions');
  await until('a thumbnail', () => page.evaluate(() => document.querySelector('#sessions-rows img.thumbnail')?.naturalWidth > 0));
  await page.setViewportSize(SIZES.phone);
  await until('filters are folded on a phone', async () => !(await page.locator('#sessions-filters').isVisible()));
  await look(page, 'sessions');
  await page.locator('#sessions-rows button', { hasText: 'End' }).click();
  await page.click('#confirm-act');
  await says(page, '#sessions-rows', 'terminated');
  await until('its last picture', () => page.evaluate(() => document.querySelector('#sessions-rows [data-live=false] img.thumbnail')?.naturalWidth > 0));
  await page.locator(`#sessions-rows a.id[title="${id}"]`).click();
  await until('its last picture, larger', () => page.evaluate(() => document.querySelector('#session-last').naturalWidth > 0));
  await says(page, '#session-ended', 'has ended');
  await look(page, 'session-ended');
  await page.evaluate(() => (location.hash = '#/no/such/page'));
  await says(page, '#unknown-text', 'no/such/page');
  await look(page, 'unknown');
  await visit(page, 'Sessions');

  // A program's session appears and goes by itself.
  const other = await api('POST', '/sessions/create', { headless: true, keep_alive: true });
  await says(page, '#sessions-rows', 'running');
  const steps = () => page.evaluate(() => history.length);
  const before = await steps();
  await page.evaluate((id) => (location.hash = `#/sessions/${id}`), other.session_id);
  await page.frameLocator('#session-view').locator('#stage[data-picture=true]').waitFor({ timeout: 30_000 });
  await api('DELETE', `/sessions/${other.session_id}`);
  await says(page, '#session-ended', 'has ended');
  assert.equal(await steps(), before + 1, 'the live view is no step of its own for the Back button');

  assert.equal(await storage(page), '[{},{},"",[]]', 'the console leaves nothing behind');
  await page.click('#sign-out');
  await page.waitForSelector('#sign-in', { state: 'visible' });
  assert.deepEqual(await page.context().cookies(), []);
  assert.deepEqual(page.problems, []);
}

/** Chooses files for the session, and looks at another one before they have arrived: they go to the first one all the same. */
async function uploadsElsewhere(page) {
  const address = page.url();
  const id = address.split('/').at(-1);
  const other = await api('POST', '/sessions/create', { headless: true, keep_alive: true });
  let arrive;
  const held = new Promise((resolve) => (arrive = resolve));
  let begun = false;
  await page.route('**/files/late-*', async (route) => {
    begun = true;
    await held;
    await route.continue();
  });
  const files = ['late-1.txt', 'late-2.txt'].map((name) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(name) }));
  await page.setInputFiles('#session-upload', files);
  await until('the first file to be on its way', () => begun);
  await page.evaluate((session) => (location.hash = `#/sessions/${session}`), other.session_id);
  await says(page, '#session-facts', other.session_id);
  await says(page, '#session-file-list', 'No files');
  arrive();
  const names = async (session) => (await api('GET', `/sessions/${session}/files`)).map(({ name }) => name);
  await until('both files', async () => (await names(id)).filter((name) => name.startsWith('late-')).length === 2);
  assert.deepEqual(await names(other.session_id), []);
  await says(page, '#session-file-list', 'No files');
  await page.unroute('**/files/late-*');
  await api('DELETE', `/sessions/${other.session_id}`);
  await go(page, address);
  await page.frameLocator('#session-view').locator('#stage[data-picture=true]').waitFor({ timeout: 30_000 });
}

/** Has the session's page say and ask for something, and looks for it in the log. */
async function follows(page) {
  const session = await api('GET', `/sessions/${page.url().split('/').at(-1)}`);
  const browser = await chromium.connectOverCDP(session.websocket_url);
  await browser.contexts()[0].pages()[0].evaluate(async (missing) => {
    console.warn('The tea is <b>too hot</b>');
    await fetch(missing);
    setTimeout(() => { throw new Error('no more tea') });
  }, `${env.SITE_URL}/nowhere?cup=2`);
  await browser.close();
  for (const wanted of ['The tea is <b>too hot</b>', 'no more tea', '/nowhere?cup=2']) await says(page, '#session-log-rows', wanted);
  await page.fill('#session-log-text', 'no such words');
  await says(page, '#session-log-empty', 'Nothing matches');
  await page.fill('#session-log-text', 'CUP=2');
  await says(page, '#session-log-rows td[data-label=Outcome]', '404');
  await page.fill('#session-log-text', '');
}

/** Pastes a recording, tries an extract, sends a fleet. */
async function tasks() {
  const page = await signedIn();
  await page.evaluate(() => (location.hash = '#/tasks/new'));
  await page.fill('#nt-recording', env.RECORDING);
  await page.locator('summary', { hasText: 'Inputs and secrets' }).click();
  await page.fill('#nt-inputs', '{"name": "Ann"}');
  await look(page, 'new-task');
  await page.locator('#new-task-form button[type=submit]').click();
  await says(page, '#task-facts', 'success');
  await says(page, '#task-output', 'Hello, Ann!');
  await until('the times of the steps', async () => (await page.locator('#task-steps [data-tone=good]').count()) === 6);
  await until('the screenshot', () => page.evaluate(() => document.querySelector('#task-artifacts img')?.naturalWidth > 0));
  await look(page, 'task');
  await page.evaluate(() => (location.hash = '#/tasks/new'));
  await page.check('input[name=type][value=extract]');
  await page.fill('#nt-url', `data:text/html,<h1>${MARKUP.replace(/[<>"]/g, '')}Sencha</h1>`);
  await page.click('#nt-try');
  await says(page, '#nt-result', 'Sencha');
  await page.check('input[name=type][value=fleet]');
  await page.fill('#nt-fleet', JSON.stringify({ extract: { url: '{{input.url}}', schema: { title: { selector: 'h1', required: true } } }, urls: ['data:text/html,<h1>1</h1>', 'data:text/html,<p>2'], retry: { max: 0 } }));
  await page.locator('#new-task-form button[type=submit]').click();
  await says(page, '#task-progress', '2 of 2, 1 failed');
  await says(page, '#task-items-rows', 'no_match');
  await look(page, 'fleet');
  await visit(page, 'Tasks');
  await says(page, '#tasks-rows', '2 of 2, 1 failed');
  await look(page, 'tasks');

  assert.deepEqual(page.problems, []);
}

/** Makes a key, uses it and revokes it, and finds that in the log. */
async function keys() {
  const page = await signedIn();
  await visit(page, 'Keys');
  await page.click('#key-new');
  await page.fill('#key-create-name', MARKUP.slice(0, 40));
  await page.keyboard.press('Enter');
  await page.waitForSelector('#secret-dialog[open]');
  const secret = await page.inputValue('#secret');
  assert.match(secret, /^wp_/);
  await page.setViewportSize({ width: 390, height: 600 });
  assert.ok(await page.locator('#secret-dialog [data-close]').evaluate((button) => button.getBoundingClientRect().bottom <= innerHeight), 'a low screen has the button');
  await accessible(page);
  // Nothing takes it away but the button: neither Escape nor the way back to another page.
  await page.keyboard.press('Escape');
  await page.evaluate(() => history.back());
  await until('the page before', async () => (await text(page, 'heading')) === 'Overview');
  assert.ok(await page.locator('#secret-dialog').isVisible());
  assert.equal(await page.inputValue('#secret'), secret);
  await page.click('#secret-dialog [data-close]');
  await page.evaluate(() => (location.hash = '#/keys'));
  await says(page, '#keys-rows', '<img src=x');
  const client = await signedIn(secret);
  assert.equal(await client.locator('#key-new').isVisible(), false);
  await visit(client, 'Sessions');
  await says(client, '#sessions-empty', 'There is no session yet');
  await look(page, 'keys');
  await rotatesOwn(page);
  await handsOver(secret);
  // Where a proxy gives up a call, the page says that the daemon does not answer, until its stream has the next sign of life.
  await page.route(/\/sessions\?/, (route) => route.fulfill({ status: 504, body: 'Gateway Timeout' }));
  await visit(page, 'Sessions');
  await page.waitForSelector('#offline', { state: 'visible' });
  await page.unroute(/\/sessions\?/);
  await page.waitForSelector('#offline', { state: 'hidden', timeout: 45_000 });
  await visit(page, 'Keys');
  await page.locator('#keys-rows tr', { hasText: '<img' }).locator('button', { hasText: 'Revoke' }).click();
  await page.click('#confirm-act');
  await says(client, '#signed-out', 'Sign in again');
  assert.deepEqual(client.problems, []);

  // The log follows, also while an older answer is on its way, and has no secret.
  const answers = [];
  await page.route('**/console/api/log', async (route) => {
    const response = await route.fetch();
    answers.push(() => route.fulfill({ response }));
  });
  await visit(page, 'Log');
  // One for the page, one for the stream that follows it.
  await until('both loads', () => answers.length === 2);
  const refused = await fetch(`${env.WARMPOOL_URL}/sessions/create`, { method: 'POST', headers, body: '{"nonsense": 1}' });
  assert.equal(refused.status, 400);
  await says(page, '#log-rows', 'unknown_field');
  for (const answer of answers) await answer();
  await page.unroute('**/console/api/log');
  await says(page, '#log-rows', 'a key was revoked in the console');
  await says(page, '#log-rows', 'unknown_field');
  await page.fill('#log-text', 'unknown_field');
  await until('only those rows', async () => (await page.locator('#log-rows tr').allTextContents()).every((row) => row.includes('unknown_field')));
  await page.fill('#log-text', '');
  const log = await page.locator('#log-rows').textContent();
  for (const part of [secret, env.WARMPOOL_SECRET_KEY]) assert.ok(!log.includes(part.split('_').at(-1)));
  await look(page, 'log');
  await visit(page, 'Worlds');
  await says(page, '#world-keys-empty', 'There is no key yet');

  assert.deepEqual(page.problems, []);
}

/** Another operator rotates their own key: they see the new secret, and stay signed in. */
async function rotatesOwn(page) {
  await page.click('#key-new');
  await page.fill('#key-create-name', 'second');
  await page.check('#key-create-form input[name=role][value=operator]');
  await page.locator('#key-create-form button[type=submit]').click();
  await page.waitForSelector('#secret-dialog[open]');
  const secret = await page.inputValue('#secret');
  await page.click('#secret-dialog [data-close]');
  const own = await signedIn(secret);
  const elsewhere = await signedIn(secret);
  await visit(own, 'Keys');
  await own.locator('#keys-rows tr', { hasText: 'second' }).locator('button', { hasText: 'Rotate' }).click();
  await own.selectOption('#key-rotate-keep', '0');
  await own.locator('#key-rotate-form button[type=submit]').click();
  await own.waitForSelector('#secret-dialog[open]');
  const rotated = await own.inputValue('#secret');
  assert.notEqual(rotated, secret);
  // The other one's stream has heard of it by then, as this one's has.
  await says(elsewhere, '#signed-out', 'Sign in again');
  assert.equal(await own.inputValue('#secret'), rotated);
  await own.click('#secret-dialog [data-close]');
  await visit(own, 'Sessions');
  assert.deepEqual([...own.problems, ...elsewhere.problems], []);
}

/** Who signs in with another key finds nothing of the one before, in the same tab and in one that was in the background. */
async function handsOver(secret) {
  const page = await signedIn();
  await page.evaluate(() => (location.hash = '#/tasks/new'));
  await page.locator('summary', { hasText: 'Inputs and secrets' }).click();
  await page.fill('#nt-secrets', '{"password": "sencha"}');
  await Promise.all([page.waitForEvent('load'), page.click('#sign-out')]);
  await page.fill('#key', secret);
  await page.keyboard.press('Enter');
  await page.waitForSelector('#page-new-task', { state: 'visible' });
  assert.equal(await page.inputValue('#nt-secrets'), '');
  assert.equal(await text(page, 'account-role'), 'client');

  await attends(page, false);
  const signIn = (key) => fetch('sign-in', { method: 'POST', headers: { 'content-type': 'application/json', 'x-warmpool-console': '1' }, body: JSON.stringify({ key }) }).then(({ status }) => status);
  assert.equal(await page.evaluate(signIn, env.WARMPOOL_SECRET_KEY), 204);
  await Promise.all([page.waitForEvent('load'), attends(page, true)]);
  await says(page, '#account-role', 'operator');
  assert.deepEqual(page.problems, []);
}

/** Tells the page that it is in the foreground, or in the background, as it is while somebody looks at another tab. */
const attends = (page, foreground) =>
  page.evaluate((visible) => {
    const states = { hidden: !visible, visibilityState: visible ? 'visible' : 'hidden' };
    for (const [name, value] of Object.entries(states)) Object.defineProperty(document, name, { value, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, foreground);

/** What is too long, too large or hostile. */
async function extremes() {
  const page = await signedIn();
  const long = 'Averyveryverylongwordwithoutanyspace'.repeat(8);
  const session = await api('POST', '/sessions/webdriver/create', { headless: true, app_name: `${MARKUP}${long}`, service_passcode: long, keep_alive: true });
  await visit(page, 'Sessions');
  await says(page, '#sessions-rows', '<img src=x');
  await look(page, 'long');
  await page.evaluate((id) => (location.hash = `#/sessions/${id}`), session.session_id);
  await says(page, '#session-facts', long);
  await look(page, 'long-session');
  await page.evaluate(() => (location.hash = '#/sessions/ses_unknown'));
  await says(page, '#session-problem', 'No session');
  await api('DELETE', `/sessions/${session.session_id}`);

  // 10 MB of a recording are held beside the field, sent, and refused with a word.
  await page.evaluate(() => (location.hash = '#/tasks/new'));
  await page.waitForSelector('#nt-recording', { state: 'visible' });
  await page.evaluate(() => {
    const steps = [{ type: 'navigate', url: `data:text/html,${'x'.repeat(10_000_000)}` }];
    const data = new DataTransfer();
    data.setData('text', JSON.stringify({ title: 'long', steps }));
    document.querySelector('#nt-recording').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await says(page, '#nt-recording-held', 'MiB of text are held');
  await page.locator('#new-task-form button[type=submit]').click();
  await says(page, '#new-task-form .problem', 'tasks.max_body');
  await says(page, '#nt-recording-held', 'MiB of text are held');
  // A fleet of 100,000 items is more than the daemon takes; it says so, and the text stays.
  await page.check('input[name=type][value=fleet]');
  const urls = Array.from({ length: 100_000 }, (_, at) => `data:,${at}`);
  const fleet = { extract: { url: '{{input.url}}', schema: { title: 'h1' } }, urls };
  await page.evaluate((body) => {
    const data = new DataTransfer();
    data.setData('text', body);
    document.querySelector('#nt-fleet').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
  }, JSON.stringify(fleet));
  await page.locator('#new-task-form button[type=submit]').click();
  await says(page, '#new-task-form .problem', 'tasks.max_items');
  // A client never sees what is not its own, nor a page that somebody else frames.
  const policy = (await fetch(`${env.WARMPOOL_URL}/console/`)).headers.get('content-security-policy');
  assert.ok(!policy.includes('unsafe') && policy.includes("frame-ancestors 'none'"), policy);
  assert.deepEqual(page.problems, []);
}

/** The daemon is replaced under the page: it says so, comes back, and is still signed in. */
async function restart() {
  const page = await signedIn();
  await visit(page, 'Sessions');
  await tell('open');
  await page.waitForSelector('#offline', { state: 'visible', timeout: 30_000 });
  await accessible(page);
  await shot(page, 'console-offline');
  await tell('lost');
  await says(page, '#notice-text', 'was restarted');
  await page.waitForSelector('#offline', { state: 'hidden' });
  await shot(page, 'console-restarted');
  await go(page, `${env.WARMPOOL_URL}/console/#/keys`);
  await says(page, '#keys-rows', 'default');
}

const tell = (what) => fetch(`${env.SITE_URL}/input/console`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ what }) });

/** Everything that scripts of a page can find again. */
const storage = (page) =>
  page.evaluate(async () => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, await indexedDB.databases()]));

await perform(flows[env.FLOW]);
