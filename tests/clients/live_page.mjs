// What every viewer's program shares: a browser of this machine, the live view's page in it, and checks of what it shows.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { until } from './session.mjs';

const env = process.env;

/** The page under test (harness/site/pages.rs) is red or blue, turns when it is clicked, and counts in its title. */
export const RED = 'red';
export const BLUE = 'blue';

export function fail(error) {
  process.stderr.write(`${error.stack ?? error}\n`, () => process.exit(1));
}

/** Opens a live view. An error in its page or a request to another host is a failure. */
export async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  const page = await context.newPage();
  const own = url === 'about:blank' ? 'https:' : new URL(url).origin;
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(error.message));
  page.on('console', (message) => {
    const refused = /Failed to load resource/.test(message.text());
    if (message.type() === 'error' && !refused) page.problems.push(message.text());
  });
  page.on('request', (request) => {
    const ours = [own, `blob:${own}`, 'data:'].some((start) => request.url().startsWith(start));
    if (!ours) page.problems.push(`asked ${request.url()}`);
  });
  await go(page, url);
  return page;
}

/** Opens an address; again where a container that came or went made the browser think that its network had changed. */
export async function go(page, url) {
  for (let again = 3; ; again--) {
    let changed = false;
    const failed = (request) => (changed ||= request.failure()?.errorText === 'net::ERR_NETWORK_CHANGED');
    page.on('requestfailed', failed);
    const problem = await page.goto(url).then(() => undefined, (error) => error);
    page.off('requestfailed', failed);
    // The error page of the last attempt may come as late as this.
    changed ||= again < 3 && Boolean(problem?.message.includes('chrome-error://'));
    if (problem && !changed) throw problem;
    if (!changed || again === 0) return;
  }
}

export const acting = (url) => `${url}&enable_actions=true`;
export const shown = (page) => page.waitForSelector('#stage[data-picture=true]', { timeout: 30_000 });
export const text = (page, id) => page.locator(`#${id}`).textContent();
export const says = (page, id, wanted) => until(`#${id} to say ${wanted}`, async () => (await text(page, id))?.includes(wanted));

/** Whether the ring around the picture says that this viewer has control. */
export const ringed = (page) => page.$eval('#stage', (stage) => getComputedStyle(stage, '::after').boxShadow !== 'none');

export async function shot(page, name) {
  if (env.SHOTS) await page.screenshot({ path: join(env.SHOTS, `${name}.png`) });
}

/** Fails if the page is hard to use for people who do not see it well, or use no mouse. Looks at these rules, or at all of them. */
export async function accessible(page, rules) {
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
  const { violations } = await page.evaluate((options) => window.axe.run(document, options), { resultTypes: ['violations'], ...(rules ? { runOnly: rules } : {}) });
  assert.deepEqual(violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => [id, target, failureSummary])), []);
}

/** Which of the two colours is in the middle of the picture. */
export function colour(page) {
  return page.evaluate(() => {
    const canvas = document.querySelector('#screen canvas');
    const at = [Math.floor(canvas.width / 2), Math.floor(canvas.height * 0.7), 1, 1];
    const [red, , blue] = canvas.getContext('2d').getImageData(...at).data;
    return red > 150 && blue < 100 ? 'red' : blue > 150 && red < 100 ? 'blue' : 'neither';
  });
}

export const turns = (page, wanted) => until(`the picture to be ${wanted}`, async () => (await colour(page)) === wanted);

/** Clicks into the lower half of the picture, which is the page whatever the browser has above it. */
export async function click(page) {
  const box = await page.locator('#screen canvas').boundingBox();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height * 0.8);
}

/** What a viewer without control sends on the bare websocket, in every form. It must change nothing. */
export async function force(page, url) {
  const heard = await page.evaluate(async (address) => {
    const socket = new WebSocket(address);
    socket.binaryType = 'arraybuffer';
    const answers = [];
    socket.onmessage = ({ data }) => answers.push(typeof data === 'string' ? JSON.parse(data).type : 'bytes');
    await new Promise((opened, failed) => Object.assign(socket, { onopen: opened, onerror: failed }));
    const say = (message) => socket.send(JSON.stringify(message));
    say({ type: 'control', take: true });
    const place = { x: 300, y: 300, button: 'left', buttons: 1, clicks: 1 };
    for (const phase of ['down', 'up']) say({ type: 'input', input: 'mouse', phase, ...place });
    say({ type: 'input', input: 'wheel', x: 300, y: 300, dx: 0, dy: 200 });
    say({ type: 'input', input: 'touch', phase: 'down', touches: [{ id: 1, x: 300, y: 300 }] });
    say({ type: 'input', input: 'touch', phase: 'up', touches: [] });
    for (const down of [true, false]) say({ type: 'input', input: 'key', down, key: 'x', code: 'KeyX', key_code: 88, text: 'x' });
    say({ type: 'input', input: 'text', text: 'forced' });
    say({ type: 'pause', on: true });
    say({ type: 'go', to: 'reload' });
    say({ type: 'open', url: 'about:blank' });
    say({ type: 'go', to: 'reload' });
    const bytes = (...parts) => socket.send(new Uint8Array(parts.flat()));
    const hello = [...'RFB 003.008\n'].map((letter) => letter.charCodeAt(0));
    bytes(hello, 1, 0);
    // A click at 300, 500, a wheel's notch there, the key F5, x as a key of QEMU's extension, and a clipboard.
    bytes([5, 1, 1, 44, 1, 244], [5, 0, 1, 44, 1, 244], [5, 16, 1, 44, 1, 244], [5, 0, 1, 44, 1, 244]);
    bytes([4, 1, 0, 0, 0, 0, 255, 194], [4, 0, 0, 0, 0, 0, 255, 194], [255, 0, 0, 1, 0, 0, 0, 120, 0, 0, 0, 45]);
    bytes([6, 0, 0, 0, 0, 0, 0, 3, 97, 98, 99]);
    // The answer to what is not understood comes after everything before it was heeded.
    say({ type: 'nonsense' });
    const deadline = performance.now() + 10_000;
    while (!answers.includes('refused') && socket.readyState === 1 && performance.now() < deadline) {
      await new Promise((wake) => setTimeout(wake, 20));
    }
    socket.close();
    return answers;
  }, url);
  assert.ok(heard.includes('hello'), heard.join());
}

/** Runs one of the flows, prints its one line of results, and exits with its outcome. It may take so many seconds. */
export async function perform(flow, seconds = 90) {
  const watchdog = setTimeout(() => fail(new Error(`the flow took longer than ${seconds} s`)), seconds * 1000);
  try {
    const results = (await flow()) ?? {};
    clearTimeout(watchdog);
    await browser.close();
    process.stdout.write(`${JSON.stringify(results)}\n`, () => process.exit(0));
  } catch (error) {
    fail(error);
  }
}

const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
export const browser = await chromium.launch({ executablePath: env.CHROMIUM ?? '/usr/bin/chromium', args }).catch(fail);
