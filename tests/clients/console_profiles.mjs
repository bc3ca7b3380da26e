// Profiles, extensions and labels in the console, in a browser of this machine, driven by Playwright. FLOW names what its user does, and
// SHOTS an optional folder for screenshots.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { chromium } from 'playwright-core';
import { api, look, says, signedIn, visit } from './console_page.mjs';
import { perform, text } from './live_page.mjs';
import { until } from './session.mjs';

const env = process.env;
const flows = { make, manage, folders, labels, extensions };

const go = (page, hash) => page.evaluate((wanted) => (location.hash = wanted), hash);
const shown = (page) => page.frameLocator('#session-view').locator('#stage[data-picture=true]').waitFor({ timeout: 30_000 });
const hash = (page) => page.evaluate(() => location.hash);
const sessionIn = async (page) => /^#\/sessions\/(ses_[\w-]+)$/.exec(await hash(page))?.[1];

/** The page of a profile has no value of it, not even where nobody sees it. */
async function noValue(page, value) {
  assert.ok(!(await page.locator('#page-profile').innerHTML()).includes(value), `${value} is in the page`);
}

/** Fills in the form for a sign-in by hand, and opens the browser. */
async function openBrowser(page, name, url) {
  if (name) await page.fill('#np-name', name);
  await page.fill('#np-url', url);
  await page.locator('#new-profile-form button[type=submit]').click();
}

/** Signs in by hand in the live view's place, saves, and begins a session with that. */
async function make() {
  const page = await signedIn();
  await visit(page, 'Profiles');
  await says(page, '#profiles-empty', 'There is no profile yet');
  await look(page, 'profiles-empty');
  await page.click('a[href="#/new-profile"]');
  await look(page, 'new-profile');
  await openBrowser(page, 'a/b', `${env.SITE_URL}/cookies/set?login=secretann`);
  await says(page, '#new-profile-form .problem', 'profile.name');
  assert.equal(await page.getAttribute('#np-name', 'aria-invalid'), 'true');
  await openBrowser(page, 'shop', `${env.SITE_URL}/cookies/set?login=secretann`);
  await says(page, '#session-profile-text', 'writes the profile shop');
  await shown(page);
  const writer = await until('its session', () => sessionIn(page));
  await look(page, 'session-profile');

  // Nobody else may write meanwhile, and who tries is led to the session.
  await go(page, '#/new-profile');
  await openBrowser(page, 'shop', 'about:blank');
  await says(page, '#new-profile-form .problem', writer);
  await page.click(`#new-profile-form .problem a[href="#/sessions/${writer}"]`);
  await shown(page);
  await page.click('#session-profile-save');
  await until('the profile in view', async () => (await hash(page)).startsWith('#/profiles/shop/'));
  await says(page, '#profile-contents', 'login');
  await says(page, '#profile-contents', 'no date of expiry');
  await says(page, '#profile-versions', writer);
  await until('nobody writes any more', () => page.locator('#profile-writer').isHidden());
  await look(page, 'profile');
  await noValue(page, 'secretann');

  // A session begins with it.
  await page.click('#profile-use');
  assert.equal(await page.inputValue('#ns-profile'), 'shop');
  await page.fill('#ns-url', `${env.SITE_URL}/cookies`);
  await page.check('#new-session-form input[name=headless]');
  await page.check('#new-session-form input[name=keep_alive]');
  await page.locator('#new-session-form button[type=submit]').click();
  await says(page, '#session-facts', 'read, not saved');
  assert.equal(await page.locator('#session-profile').isVisible(), false, 'it saves nothing');
  const reader = await until('its session', () => sessionIn(page));
  const { websocket_url: address } = await api('GET', `/sessions/${reader}`);
  const remote = await chromium.connectOverCDP(address);
  const [tab] = remote.contexts()[0].pages();
  await until('the cookie to reach the site', async () => (await tab.content()).includes('secretann'));
  await remote.close();
  await page.locator('#session-facts a', { hasText: 'shop' }).click();
  await says(page, '#profile-title', 'shop');

  // Another sign-in makes another version.
  await page.click('#profile-again');
  await says(page, '#new-profile-title', 'Sign in again to “shop”');
  await openBrowser(page, '', `${env.SITE_URL}/cookies/set?second=secretbob`);
  await shown(page);
  await page.click('#session-profile-save');
  await says(page, '#profile-contents', 'second');
  await says(page, '#profile-versions', 'Version 2, the newest');
  assert.deepEqual(page.problems, []);
}

const STATE = (value) => ({
  cookies: [
    { name: 'login', value, domain: '.shop.example', path: '/', expires: 4_000_000_000 },
    { name: `a_rather_${'long_'.repeat(20)}name`, value, domain: 'www.shop.example', path: '/basket' },
  ],
  origins: [{ origin: 'https://shop.example', localStorage: [{ name: 'k', value }, { name: 'l', value }] }],
});
const file = (name, content) => ({ name, mimeType: 'application/json', buffer: Buffer.from(content) });

/** Imports, exports, rolls back and deletes. */
async function manage() {
  const page = await signedIn();
  await visit(page, 'Profiles');
  const attempt = async (name, content) => {
    if (name) await page.fill('#profile-import-name', name);
    await page.setInputFiles('#profile-import-file', content);
    await page.locator('#profile-import-form button[type=submit]').click();
  };
  await page.click('#profiles-import');
  await page.fill('#profile-import-name', 'tea');
  await page.locator('#profile-import-form button[type=submit]').click();
  await says(page, '#profile-import-problem', 'Choose a file.');
  await attempt('tea', file('notes.txt', 'Sencha'));
  await says(page, '#profile-import-problem', '“notes.txt” is not JSON');
  await attempt('tea', file('list.json', '[]'));
  await says(page, '#profile-import-problem', 'holds no state');
  await attempt('tea', file('jar.json', '{"jar": []}'));
  await says(page, '#profile-import-problem', 'The file cannot be used');
  await look(page, 'profile-import');
  await attempt('tea', file('state.json', JSON.stringify(STATE('secretone'))));
  await says(page, '#profile-contents', 'local storage: 2 entries');
  await says(page, '#profile-contents', '2096');
  await page.click('#profile-import');
  await attempt('', file('state.json', JSON.stringify(STATE('secrettwo'))));
  await says(page, '#profile-versions', 'Version 2, the newest');
  await look(page, 'profile-imported');
  await visit(page, 'Profiles');
  await page.click('#profiles-import');
  await attempt('tea', file('state.json', '{}'));
  await says(page, '#profile-import-problem', 'There is a profile of this name already');
  await page.keyboard.press('Escape');

  await page.click('#profiles-rows a[data-focus$=" tea open"]');
  const exported = async (button) => {
    const [download] = await Promise.all([page.waitForEvent('download'), button.click()]);
    return [download.suggestedFilename(), JSON.parse(await readFile(await download.path(), 'utf8')).cookies[0].value];
  };
  assert.deepEqual(await exported(page.locator('#profile-export')), ['tea.json', 'secrettwo']);
  const first = page.locator('#profile-versions li', { hasText: 'Version 1' });
  assert.deepEqual(await exported(first.locator('button', { hasText: 'Export' })), ['tea 1.json', 'secretone']);
  await first.locator('button', { hasText: 'Roll back' }).click();
  await page.click('#confirm-act');
  await says(page, '#profile-versions', 'Version 3, the newest');
  assert.deepEqual((await exported(page.locator('#profile-export')))[1], 'secretone');
  await noValue(page, 'secretone');

  // A session that writes it keeps it from being deleted; the refusal leads there.
  const { session_id: writer } = await api('POST', '/sessions/create', { headless: true, keep_alive: true, profile: { name: 'tea', mode: 'write' } });
  await says(page, '#profile-writer', writer);
  await look(page, 'profile-written');
  await visit(page, 'Profiles');
  await page.waitForSelector(`#profiles-rows a[href="#/sessions/${writer}"]`);
  await look(page, 'profiles');
  await page.click('#profiles-rows a[data-focus$=" tea open"]');
  await page.click('#profile-delete');
  await page.click('#confirm-act');
  await says(page, '#confirm-form .problem', writer);
  await page.click(`#confirm-form .problem a[href="#/sessions/${writer}"]`);
  await says(page, '#session-profile-text', 'writes the profile tea');
  await shown(page);
  await page.click('#session-profile-save');
  await until('the profile in view', () => page.locator('#profile-body').isVisible());
  await until('nobody writes any more', () => page.locator('#profile-writer').isHidden());
  await page.click('#profile-delete');
  assert.match(await text(page, 'confirm-title'), /for good/);
  await page.click('#confirm-act');
  await until('the list', async () => (await text(page, 'heading')) === 'Profiles');
  await until('it is gone', async () => !(await text(page, 'profiles-rows')).includes('tea'));
  await go(page, '#/profiles/tea');
  await says(page, '#profile-problem', 'No profile tea');
  assert.deepEqual(page.problems, []);
}

/** Makes a profile that is a folder, takes it out, and brings it in under another name. */
async function folders() {
  const page = await signedIn();
  await go(page, '#/new-profile');
  await says(page, '#np-kind-hint', 'Any browser can use');
  await page.check('#new-profile-form input[value=folder]');
  await says(page, '#np-kind-hint', 'Only the same browser');
  await look(page, 'new-profile-folder');
  await openBrowser(page, 'van', `${env.SITE_URL}/cookies/set?login=secretcat`);
  await shown(page);
  await page.click('#session-profile-save');
  await says(page, '#profile-facts', 'the whole folder, for Chromium alone');
  await until('its first version', async () => (await page.locator('#profile-versions').textContent()).includes('Version 1'));
  await until('nobody writes any more', () => page.locator('#profile-writer').isHidden());
  await says(page, '#profile-none', 'does not look into');
  await look(page, 'profile-folder');
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#profile-export')]);
  assert.equal(download.suggestedFilename(), 'van.tar.zst');
  const packed = await readFile(await download.path());

  await visit(page, 'Profiles');
  const attempt = async (name, buffer) => {
    await page.click('#profiles-import');
    await page.fill('#profile-import-name', name);
    await page.setInputFiles('#profile-import-file', { name: 'van.tar.zst', mimeType: 'application/zstd', buffer });
    await page.locator('#profile-import-form button[type=submit]').click();
  };
  await attempt('van', packed);
  await says(page, '#profile-import-problem', 'There is a profile of this name already');
  await page.keyboard.press('Escape');
  await attempt('torn', packed.subarray(0, packed.length >> 1));
  await says(page, '#profile-import-problem', 'The file cannot be used');
  await page.keyboard.press('Escape');
  await attempt('copy', packed);
  await says(page, '#profile-title', 'copy');
  await page.click('#profile-again');
  await says(page, '#np-kind-hint', 'for Chromium alone');
  assert.equal(await page.locator('#np-kinds').isVisible(), false, 'a kind stays as it is');
  assert.equal(await page.locator('#new-profile-form input[value=firefox]').isDisabled(), true);
  await visit(page, 'Profiles');
  const rows = page.locator('#profiles-rows tr', { hasText: 'a folder' });
  await look(page, 'profiles-folders');
  await until('both', async () => (await rows.count()) === 2);
  assert.equal(await page.locator('#profiles-rows tr', { hasText: 'torn' }).count(), 0, 'a torn file makes no profile');
  assert.deepEqual(page.problems, []);
}

/** Finds sessions and tasks by their labels. */
async function labels() {
  const page = await signedIn();
  await page.evaluate(() => (location.hash = '#/sessions/new'));
  await page.check('#new-session-form input[name=headless]');
  await page.check('#new-session-form input[name=keep_alive]');
  await page.locator('summary', { hasText: 'Notes' }).click();
  await page.fill('#ns-labels', `team=search, order=${'1234567890'.repeat(20)}`);
  await page.locator('#new-session-form button[type=submit]').click();
  await says(page, '#session-facts', 'team=search');
  const marked = await until('its session', () => sessionIn(page));
  const plain = await api('POST', '/sessions/create', { headless: true, keep_alive: true });
  await visit(page, 'Sessions');
  await says(page, '#sessions-rows', 'team=search');
  await look(page, 'labels');
  await page.fill('#sessions-labels', 'team');
  await says(page, '#sessions-problem', 'metadata');
  await page.fill('#sessions-labels', 'team=search');
  const rows = page.locator('#sessions-rows a.id');
  await until('one row', async () => (await rows.count()) === 1 && (await rows.first().getAttribute('title')) === marked);
  for (const id of [marked, plain.session_id]) await api('DELETE', `/sessions/${id}`);

  const extract = { url: 'data:text/html,<h1>Sencha</h1>', schema: { title: 'h1' } };
  await api('POST', '/lam/extract', { ...extract, metadata: { team: 'tea', env: 'test' } });
  await api('POST', '/lam/extract', extract);
  await visit(page, 'Tasks');
  await until('both tasks', async () => (await page.locator('#tasks-rows tr').count()) >= 2);
  await page.fill('#tasks-labels', 'team=tea, env=test');
  await until('one row', async () => (await page.locator('#tasks-rows tr').count()) === 1);
  await says(page, '#tasks-rows', 'env=test');
  await page.locator('#tasks-rows a').first().click();
  await says(page, '#task-facts', 'team=tea');
  assert.deepEqual(page.problems, []);
}

/** Uploads an extension, begins a session with it, and deletes it. */
async function extensions() {
  const page = await signedIn();
  await visit(page, 'Extensions');
  await says(page, '#extensions-empty', 'There is no extension yet');
  await look(page, 'extensions-empty');
  const attempt = async (content) => {
    if (content) await page.setInputFiles('#extension-upload-file', content);
    await page.locator('#extension-upload-form button[type=submit]').click();
  };
  await page.click('#extensions-upload');
  await attempt();
  await says(page, '#extension-upload-problem', 'Choose a file.');
  await attempt(file('tea.zip', 'Sencha'));
  await says(page, '#extension-upload-problem', 'The file cannot be used');
  await look(page, 'extension-upload');
  await attempt(env.EXTENSION_FILE);
  await says(page, '#extensions-rows', 'Tea');
  await says(page, '#extensions-rows', 'https://tea.example/*');
  await look(page, 'extensions');
  const id = await page.locator('#extensions-rows code').textContent();

  await go(page, '#/sessions/new');
  await page.check('#new-session-form input[name=headless]');
  await page.check('#new-session-form input[name=keep_alive]');
  await page.locator('summary', { hasText: 'Extensions' }).click();
  await page.locator('#ns-extensions label', { hasText: 'Tea' }).click();
  await until('the lines to name it', async () => (await page.inputValue('#new-session-code textarea')).includes(id));
  await look(page, 'new-session-extension');
  await page.locator('#new-session-form button[type=submit]').click();
  const made = await until('its session', () => sessionIn(page));
  await shown(page);
  await visit(page, 'Extensions');
  await api('DELETE', `/sessions/${made}`);

  await page.locator('#extensions-rows button', { hasText: 'Delete' }).click();
  await page.click('#confirm-act');
  await says(page, '#extensions-empty', 'There is no extension yet');
  assert.deepEqual(page.problems, []);
}

await perform(flows[env.FLOW]);
