// What Playwright saves of a context goes into a session, and what a session is read into a context of Playwright's.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import { Session, run } from './session.mjs';

const KEPT = { cookies: ['login=ann'], local: 'ä "1"', item: { name: 'ann', bytes: [0, 255] }, file: 'private' };

await run(async (settings) => {
  const saved = await inSession(settings, {}, async (context, page) => {
    await page.evaluate(keep, KEPT);
    return await context.storageState({ indexedDB: true, opfs: true });
  });

  const read = await inSession(settings, { state: saved }, async (context, page, session) => {
    assert.deepEqual(await page.evaluate(kept), KEPT, 'a session has what a context of Playwright had');
    return await (await session.request('GET', 'state')).json();
  });

  await inSession(settings, {}, async (shared) => {
    const context = await shared.browser().newContext({ storageState: read });
    const page = await context.newPage();
    await page.goto(`${settings.site}/`);
    assert.deepEqual(await page.evaluate(kept), KEPT, 'a context of Playwright has what a session had');
    await context.close();
  });
  return { origins: read.origins.map(({ origin }) => origin) };
});

/** Lets Playwright show the site in the first context of a new session. */
async function inSession(settings, body, use) {
  const session = await Session.create(settings, '', { headless: true, url: 'about:blank', ...body });
  assert.equal(session.warnings, undefined);
  const browser = await chromium.connectOverCDP(session.websocket_url);
  const [context] = browser.contexts();
  const page = context.pages()[0] ?? (await context.newPage());
  await page.goto(`${settings.site}/`);
  const result = await use(context, page, session);
  await browser.close();
  return result;
}

/* In the page. */

async function keep({ cookies, local, item, file }) {
  document.cookie = `${cookies[0]}; path=/; max-age=10000`;
  localStorage.setItem('local', local);
  await new Promise((done, failed) => {
    const open = indexedDB.open('shop', 2);
    open.onupgradeneeded = () => open.result.createObjectStore('items', { keyPath: 'name' }).put(item);
    open.onsuccess = done;
    open.onerror = failed;
  });
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('folder', { create: true });
  const writer = await (await folder.getFileHandle('kept.txt', { create: true })).createWritable();
  await writer.write(file);
  await writer.close();
}

async function kept() {
  const item = await new Promise((done, failed) => {
    const open = indexedDB.open('shop', 2);
    open.onupgradeneeded = () => open.transaction.abort();
    open.onsuccess = () => {
      const get = open.result.transaction('items').objectStore('items').get('ann');
      get.onsuccess = () => done(get.result);
    };
    open.onerror = failed;
  });
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('folder');
  const file = await (await (await folder.getFileHandle('kept.txt')).getFile()).text();
  return { cookies: document.cookie.split('; '), local: localStorage.getItem('local'), item, file };
}
