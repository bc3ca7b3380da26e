// The first page, the docs and the guides in a browser of this machine, driven by Playwright, in both themes on screens of three
// widths: a person reads a call, enters their key, tries it, and runs the examples. SHOTS is an optional folder for screenshots.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { accessible, go, open, perform, shot, text } from './live_page.mjs';
import { until } from './session.mjs';

const { WARMPOOL_URL: url, WARMPOOL_SECRET_KEY: key } = process.env;
const SIZES = { phone: { width: 390, height: 844 }, tablet: { width: 900, height: 800 }, wide: { width: 1440, height: 900 } };
const run = promisify(execFile);
const headers = { 'service-secret-key': key };

/** Looks at the page in both themes and at each width. */
async function look(page, name) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      // The themes differ in nothing but their colours.
      await accessible(page, colorScheme === 'light' ? undefined : ['color-contrast']);
      await shot(page, `${name}-${size}-${colorScheme}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${name}, ${size}: ${wide} pixels stick out`);
  }
}

/** The first page says that the daemon is ready, and leads to the rest; so does an address that nothing has. */
async function start() {
  const page = await open(`${url}/`);
  await until('the daemon to be ready', async () => (await text(page, 'ready-text')) === 'Ready');
  await look(page, 'start');
  await go(page, `${url}/doc`);
  assert.match(await page.textContent('main'), /Nothing is at \/doc\. Did you mean \/docs\?/);
  await look(page, 'unknown');
  await page.click('.ways a >> nth=0');
  for (const [way, heading] of [['Guides', 'Warmpool'], ['HTTP API', 'HTTP API'], ['Console', 'Sign in']]) {
    await page.click(`#top nav a:text-is("${way}"), .ways a:has-text("${way}")`);
    await until(`${way} to be open`, async () => (await page.textContent('h1'))?.includes(heading));
    await page.click('.brand a');
  }
  assert.deepEqual(page.problems, []);
  await page.context().close();
}

/** A guide has its pictures, and its links lead on. */
async function guide() {
  const page = await open(`${url}/docs/live-view`);
  await until('the picture', () => page.$eval('.guide img', (image) => image.naturalWidth > 0));
  await look(page, 'guide');
  const guides = await page.$$eval('#contents a', (all) => all.map((link) => link.href));
  for (const guide of guides.filter((guide) => !guide.endsWith('/docs'))) await leads(guide);
  assert.deepEqual(page.problems, []);
  await page.context().close();
}

const texts = new Map();
const read = async (address) => {
  if (!texts.has(address)) texts.set(address, await fetch(address, { headers: { accept: 'text/html' } }).then(async (reply) => [reply.status, await reply.text()]));
  return texts.get(address);
};

/** Every link of a guide leads to a page, and to a place in it; every picture is there. */
async function leads(guide) {
  const [status, html] = await read(guide);
  assert.equal(status, 200, guide);
  const targets = [...html.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, target]) => new URL(target, guide)).filter(({ origin }) => origin === new URL(url).origin);
  for (const target of targets) {
    const place = target.hash.slice(1);
    target.hash = '';
    const [found, text] = await read(target.href);
    assert.equal(found, 200, `${guide} leads to ${target.href}`);
    assert.ok(!place || text.includes(`id="${place}"`), `${guide} leads to #${place} of ${target.href}`);
  }
  if (guide.endsWith('/start')) assert.ok(targets.length > 40, 'the start leads to the guides');
}

async function unfold(page, call) {
  await page.click(`#${call} > summary`);
  await page.waitForSelector(`#${call} .content`);
}

/** Every call has an example in each language. */
async function examples(page) {
  for (const [language, word] of [['curl', 'curl '], ['python', 'import '], ['javascript', 'await ']]) {
    await page.selectOption('#language', language);
    const calls = await page.locator('.call').count();
    assert.ok(calls > 60, `${calls} calls`);
    const lines = await page.$$eval('.call textarea[readonly]', (all) => all.map(({ value }) => value));
    assert.equal(lines.length, calls);
    for (const code of lines) assert.ok(code.includes(word) || code.includes('new WebSocket('), `${language}: ${code}`);
  }
}

/** The programs that run an example. */
const PROGRAMS = { curl: ['sh', '-c'], python: ['python3', '-c'], javascript: [process.execPath, '--input-type=module', '-e'] };

/** What an example prints. */
async function printed(page, call, language) {
  await page.selectOption('#language', language);
  const code = await page.inputValue(`#${call} textarea[readonly]`);
  const [program, ...options] = PROGRAMS[language];
  const { stdout } = await run(program, [...options, code], { timeout: 60_000 }).catch((error) => assert.fail(`${code}\n${error.stderr}`));
  return stdout;
}

async function tries(page) {
  await page.fill('#service-key', key);
  await page.fill('#list_sessions-query-status', 'running');
  await page.click('#list_sessions .content button:text-is("Send")');
  await until('the answer', async () => (await page.locator('#list_sessions .answer .status').allTextContents()).includes('200'));
  assert.match(await page.textContent('#list_sessions .answer pre'), /"sessions": \[/);
  await shot(page, 'docs-tried');
  const kept = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie + location.href);
  assert.ok(!kept.includes(key), 'the key is in memory only');

  await page.fill('#create_session textarea:not([readonly])', '{"headless": true, "url": "about:blank", "advanced": {"block_ads": false}}');
  for (const language of Object.keys(PROGRAMS)) {
    assert.match(await printed(page, 'list_sessions', language), /totalRecords/, language);
    const [id] = /ses_[\w-]{22}/.exec(await printed(page, 'create_session', language)) ?? [];
    assert.ok(id, language);
    await fetch(`${url}/sessions/${id}`, { method: 'DELETE', headers });
  }
}

async function docs() {
  const page = await open(`${url}/docs`, { viewport: SIZES.wide });
  await page.waitForSelector('#list_sessions', { timeout: 30_000 });
  await look(page, 'docs');
  for (const call of ['create_session', 'list_sessions', 'generate_world']) await unfold(page, call);
  await page.locator('#create_session').scrollIntoViewIfNeeded();
  await page.click('#create_session summary:text-is("Members of the body")');
  await look(page, 'docs-call');
  await tries(page);
  await page.fill('#filter', 'post lam/fleet');
  await until('the calls that fit', async () => (await page.locator('.call:visible').count()) === 1);
  await page.fill('#filter', '');
  // An address names its call.
  await go(page, `${url}/docs#end_session`);
  await page.reload();
  await page.waitForSelector('#end_session[open] .content');
  await page.evaluate(() => document.querySelectorAll('.call').forEach((call) => (call.open = true)));
  await until('every call', () => page.evaluate(() => [...document.querySelectorAll('.call')].every((call) => call.querySelector('.content'))));
  await examples(page);
  await accessible(page);
  assert.deepEqual(page.problems, []);
  await page.context().close();
}

await perform(async () => {
  await start();
  await guide();
  await docs();
  // Six looks at a page that describes every call.
}, 240);
