// A world's viewer and the console's page for worlds, in a browser of this machine, driven by Playwright. FLOW names what
// the visitor does, and SHOTS an optional folder for screenshots.

import assert from 'node:assert/strict';
import { accessible, browser, open, perform, says, shot, text } from './live_page.mjs';
import { until } from './session.mjs';

const env = process.env;
const flows = { viewer, console: consolePage };
const THEMES = ['light', 'dark'];

/** The world's pictures, items and controls, as a visitor with a keyboard uses them. */
async function viewer() {
  for (const colorScheme of THEMES) {
    const page = await open(env.VIEWER_URL, { colorScheme });
    await page.waitForSelector('#picture canvas', { timeout: 30_000 });
    await accessible(page);
    await shot(page, `world-${colorScheme}`);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  }
  const page = await open(env.VIEWER_URL, { reducedMotion: 'reduce' });
  await page.waitForSelector('#picture canvas', { timeout: 30_000 });
  const first = await page.screenshot();
  await until('an item to have the focus', async () => {
    await page.keyboard.press('Tab');
    return page.evaluate(() => document.activeElement.classList.contains('spot'));
  });
  const name = await page.evaluate(() => document.activeElement.title);
  await says(page, 'caption', name);
  await shot(page, 'world-item');
  const before = await page.screenshot();
  for (const key of ['ArrowRight', 'ArrowRight', 'ArrowUp']) await page.keyboard.press(key);
  await until('the view to have turned', async () => !(await page.screenshot()).equals(before));
  await page.keyboard.press('Home');
  await page.locator('#picture').focus();
  await page.click('#right');
  await until('the button to have turned the view', async () => !(await page.screenshot()).equals(first));

  await pictures(page);
  await page.click('#captions');
  assert.equal(await page.getAttribute('#captions', 'aria-pressed'), 'false');
  assert.equal(await text(page, 'caption'), '', 'captions go when they are not wanted');
  await page.click('#captions');
  await page.click('#talk');
  assert.ok((await page.locator('#place-list li').count()) > 0, 'there are questions to talk about');
  await accessible(page);
  await shot(page, 'world-questions');
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('#questions').isVisible(), false);
  const page_storage = await storage(page);
  assert.equal(page_storage, '[{},{},"",[]]', 'a viewer leaves nothing behind');
  assert.deepEqual(page.problems, []);

  await flat();
  await closed();
}

/** The attached pictures lie on their frames, and a tap opens one large. */
async function pictures(page) {
  const spot = page.locator('.spot[aria-label="Picture: By the sea"]');
  await spot.focus();
  await page.keyboard.press('Home');
  const drawn = () => page.$$eval('#prints canvas:not([hidden])', (canvases) => canvases.map(({ width, style }) => [width, style.transform]));
  await until('the pictures to be drawn', async () => (await drawn()).length > 0);
  for (const [width, transform] of await drawn()) assert.ok(width > 1 && transform.startsWith('matrix3d('), transform);
  await shot(page, 'world-pictures');

  const dialog = page.locator('#large');
  await page.keyboard.press('Enter');
  await dialog.waitFor();
  assert.equal(await text(page, 'large-title'), 'By the sea');
  assert.match(await text(page, 'large-prompt'), /\?$/, 'there is something to talk about');
  assert.equal(await page.$eval('#large-image', (image) => image.decode().then(() => image.naturalWidth)), 64, 'the picture itself');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'large-close');
  await accessible(page);
  await shot(page, 'world-large');
  const view = await drawn();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  assert.ok(await spot.evaluate((button) => button === document.activeElement), 'the focus goes back');
  assert.deepEqual(await drawn(), view, 'keys of the dialog do not turn the view');

  await spot.click();
  await dialog.waitFor();
  await page.click('#large-close');
  await dialog.waitFor({ state: 'hidden' });
  // A film is one at its first look.
  await page.locator('.spot[aria-label="Film: A walk"]').focus();
  await page.keyboard.press('Enter');
  await dialog.waitFor();
  assert.ok(await page.$eval('#large-frame', (frame) => 'film' in frame.dataset));
  await accessible(page);
  await shot(page, 'world-film');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await page.keyboard.press('Home');
}

/** Without WebGL there is a still picture, which turns as well. */
async function flat() {
  const page = await open('about:blank', { reducedMotion: 'reduce' });
  await page.addInitScript(() => {
    const context = HTMLCanvasElement.prototype.getContext;
    HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
      return kind.includes('webgl') ? null : context.call(this, kind, ...rest);
    };
  });
  page.problems.length = 0;
  await page.goto(env.VIEWER_URL);
  const place = () => page.$eval('#picture', ({ style }) => style.backgroundImage && style.backgroundPosition);
  const before = await until('the still picture', place);
  await shot(page, 'world-flat');
  await page.keyboard.press('ArrowLeft');
  await until('the still picture to turn', async () => (await place()) !== before);
  await accessible(page);
}

/** The page of an address that shows nothing. */
async function closed() {
  for (const colorScheme of THEMES) {
    const page = await open(env.CLOSED_URL, { colorScheme });
    assert.match(await page.locator('h1').textContent(), /does not work any more/);
    await accessible(page);
    await shot(page, `world-closed-${colorScheme}`);
    assert.deepEqual(page.problems, []);
  }
}

/** An operator: signs in, makes a key, watches the log, opens a world, revokes the key, signs out. */
async function consolePage() {
  const secret = env.WARMPOOL_SECRET_KEY;
  const page = await open(`${env.WARMPOOL_URL}/console/#/worlds`, { colorScheme: 'light' });
  await page.waitForSelector('#sign-in', { state: 'visible' });
  await accessible(page);
  await shot(page, 'console-sign-in');
  await page.fill('#key', 'wp_wrong');
  await page.keyboard.press('Enter');
  await until('the refusal', async () => (await text(page, 'sign-in-problem')) !== '');
  await page.fill('#key', secret);
  await page.keyboard.press('Enter');
  await page.waitForSelector('#app', { state: 'visible' });

  await page.click('#world-key-new');
  await page.fill('#world-key-create-name', 'Ward 7');
  await accessible(page);
  await shot(page, 'console-new-key');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#secret-dialog[open]');
  const key = await page.inputValue('#secret');
  assert.match(key, /^wk_live_/);
  await page.click('#secret-dialog [data-close]');
  const row = page.locator('#world-keys-rows tr', { hasText: 'Ward 7' });
  assert.match(await row.textContent(), /active/);

  await until('the log to be live', async () => (await page.getAttribute('#world-live-state', 'data-tone')) === 'good');
  const ask = async (body) =>
    fetch(`${env.WARMPOOL_URL}/v1/world/generate`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  await ask({ api_key: key, patient_id: 'p-9', patient_name: 'Ida Roth', environment_type: 'beach' });
  await ask(JSON.parse(env.REQUEST));
  const logged = page.locator('#world-log-rows tr', { hasText: env.PATIENT });
  await logged.first().waitFor({ timeout: 15_000 });
  await page.locator('#world-log-rows tr', { hasText: '400 Bad Request' }).first().waitFor({ timeout: 15_000 });
  await until('the world to be ready', async () => (await logged.first().locator('[data-label=World]').textContent()) === 'ready');
  assert.equal(await page.locator('#world-renderer').isVisible(), false);
  for (const [width, height] of [[390, 800], [900, 800], [1440, 900]]) {
    await page.setViewportSize({ width, height });
    for (const colorScheme of THEMES) {
      await page.emulateMedia({ colorScheme });
      await accessible(page, colorScheme === 'light' ? undefined : ['color-contrast']);
      await shot(page, `console-${width}-${colorScheme}`);
    }
  }

  await page.setViewportSize({ width: 1440, height: 600 });
  await logged.first().locator('button').last().click();
  await page.waitForSelector('#world-picture', { state: 'visible' });
  assert.equal(await page.getAttribute('#world-open', 'href'), env.VIEWER_URL);
  await accessible(page);
  await shot(page, 'console-world');
  assert.ok(await page.locator('#world-open').evaluate((button) => button.getBoundingClientRect().bottom <= innerHeight), 'a low screen has the buttons');
  await page.click('#world-dialog [data-close]');

  await row.locator('button', { hasText: 'Revoke' }).click();
  await page.click('#confirm-act');
  await until('the key to be revoked', async () => {
    const listed = await page.locator('#world-keys-rows tr', { hasText: 'Ward 7' }).allTextContents();
    return listed.every((line) => line.includes('revoked'));
  });
  const late = await ask({ api_key: key, patient_id: 'p-9', patient_name: 'Ida Roth', environment_type: 'porch' });
  assert.equal(late.status, 401);

  const kept = await storage(page);
  assert.ok(!kept.includes(secret) && !kept.includes(key), kept);
  await page.click('#sign-out');
  await page.waitForSelector('#sign-in', { state: 'visible' });
  assert.equal(await page.inputValue('#key'), '');
  assert.deepEqual(await page.context().cookies(), []);
  assert.deepEqual(page.problems, []);
}

/** Everything that scripts of a page can find again. */
const storage = (page) =>
  page.evaluate(async () => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, await indexedDB.databases()]));

await perform(flows[env.FLOW]);
