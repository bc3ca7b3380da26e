// The docs of the interface in a browser of this machine, driven by Playwright: a person reads a call, enters their key and
// tries it. SHOTS is an optional folder for screenshots.

import assert from 'node:assert/strict';
import { open, perform, shot } from './live_page.mjs';

const { WARMPOOL_URL: url, WARMPOOL_SECRET_KEY: key } = process.env;
const SCREENS = {
  light: { colorScheme: 'light' },
  phone: { colorScheme: 'dark', viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};

async function read(name, options) {
  const page = await open(`${url}/docs`, options);
  await page.waitForSelector('#operations-Sessions-list_sessions', { timeout: 30_000 });
  await shot(page, `docs-${name}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${name}: ${wide} pixels stick out`);
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(background === 'rgb(255, 255, 255)', options.colorScheme === 'light', background);
  await page.click('#operations-Sessions-create_session .opblock-summary-control');
  await page.waitForSelector('#operations-Sessions-create_session .opblock-body');
  await page.locator('#operations-Sessions-create_session').scrollIntoViewIfNeeded();
  await shot(page, `docs-${name}-call`);
  return page;
}

async function tries(page) {
  await page.click('.btn.authorize');
  const scheme = page.locator('.auth-container', { hasText: 'service-secret-key' }).first();
  await scheme.locator('input').first().fill(key);
  await scheme.locator('button.authorize').first().click();
  await shot(page, 'docs-authorize');
  await page.click('.btn-done');
  const call = page.locator('#operations-Sessions-list_sessions');
  await call.locator('.opblock-summary-control').click();
  await call.locator('.try-out__btn').click();
  await call.locator('button.execute').click();
  const status = call.locator('.live-responses-table .response-col_status').last();
  await status.waitFor({ timeout: 30_000 });
  assert.match(await status.textContent(), /^200/);
  await call.locator('.live-responses-table').scrollIntoViewIfNeeded();
  await shot(page, 'docs-tried');
  const kept = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie);
  assert.ok(!kept.includes(key), 'the key is in memory only');
}

await perform(async () => {
  for (const [name, options] of Object.entries(SCREENS)) {
    const page = await read(name, options);
    if (name === 'light') await tries(page);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  }
});
