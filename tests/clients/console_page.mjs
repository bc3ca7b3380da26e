// The console as a page under test: signing in, following its navigation, and looking at it on screens of several widths.

import assert from 'node:assert/strict';
import { accessible, open, shot, text } from './live_page.mjs';
import { until } from './session.mjs';

const env = process.env;
export const SIZES = { phone: { width: 390, height: 800 }, tablet: { width: 900, height: 800 }, wide: { width: 1440, height: 900 } };

export const headers = { 'content-type': 'application/json', 'service-secret-key': env.WARMPOOL_SECRET_KEY };

export async function api(method, path, body) {
  const reply = await fetch(`${env.WARMPOOL_URL}${path}`, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
  assert.ok(reply.ok, `${method} ${path} answered ${reply.status}: ${await reply.clone().text()}`);
  return reply.status === 204 ? undefined : reply.json();
}

export async function signedIn(key = env.WARMPOOL_SECRET_KEY) {
  const page = await open(`${env.WARMPOOL_URL}/console/`);
  await page.waitForSelector('#sign-in', { state: 'visible' });
  await page.fill('#key', key);
  await page.keyboard.press('Enter');
  await page.waitForSelector('#app', { state: 'visible' });
  return page;
}

/** Follows a link of the navigation by keyboard. */
export async function visit(page, name) {
  await page.waitForSelector('dialog[open]', { state: 'detached' });
  await page.locator('#pages a', { hasText: name }).focus();
  await page.keyboard.press('Enter');
  await until(`${name} to be in view`, async () => (await text(page, 'heading')) === name);
}

/** Looks at the page on screens of three widths, in both themes. */
export async function look(page, name) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ['dark', 'light']) {
      await page.emulateMedia({ colorScheme });
      // The themes differ in nothing but their colours.
      await accessible(page, colorScheme === 'light' ? undefined : ['color-contrast']);
      await shot(page, `console-${name}-${size}-${colorScheme}`);
    }
    const over = await page.evaluate(() => Math.max(...[document.documentElement, ...document.querySelectorAll('dialog[open]')].map((box) => box.scrollWidth - box.clientWidth)));
    assert.ok(over <= 0, `${name} is ${over} pixels too wide (${size})`);
  }
}

/** Waits until a part of the page says this; longer than others wait, since tasks have to be carried out meanwhile. */
export async function says(page, selector, wanted) {
  const deadline = Date.now() + 45_000;
  for (;;) {
    const texts = await page.locator(selector).allTextContents();
    if (texts.some((found) => found.includes(wanted))) return;
    assert.ok(Date.now() < deadline, `${selector} does not say ${wanted}: ${texts.join(' | ').slice(0, 500)}`);
    await page.waitForTimeout(50);
  }
}
