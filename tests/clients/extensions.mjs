// A browser whose session names an extension: Puppeteer and Playwright, unmodified, see its service worker and what it does to
// pages. SESSION_WS is the browser's address.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { run, until } from './session.mjs';

const WORKER = /^chrome-extension:\/\/[a-p]{32}\/background\.js$/;

await run(async ({ site }) => {
  const address = process.env.SESSION_WS;
  return { puppeteer: await withPuppeteer(address, site), playwright: await withPlaywright(address, site) };
});

async function withPuppeteer(browserWSEndpoint, site) {
  const browser = await puppeteer.connect({ browserWSEndpoint });
  const target = await browser.waitForTarget((one) => one.type() === 'service_worker' && WORKER.test(one.url()));
  const worker = await target.worker();
  assert.equal(await worker.evaluate('chrome.runtime.getManifest().name'), 'Probe');
  const page = await browser.newPage();
  await page.goto(`${site}/`);
  await until('the mark of its content script', () => page.evaluate(() => document.documentElement.dataset.probe === 'here'));
  await page.close();
  await browser.disconnect();
  return target.url();
}

async function withPlaywright(address, site) {
  const browser = await chromium.connectOverCDP(address);
  const [context] = browser.contexts();
  const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
  assert.match(worker.url(), WORKER);
  const page = await context.newPage();
  await page.goto(`${site}/`);
  await page.waitForSelector('html[data-probe=here]', { state: 'attached' });
  // A context of the client's own has it as well.
  const own = await browser.newContext();
  const ownPage = await own.newPage();
  await ownPage.goto(`${site}/`);
  const isInOwn = await ownPage
    .waitForSelector('html[data-probe=here]', { state: 'attached', timeout: 5000 })
    .then(() => true, () => false);
  await own.close();
  await page.close();
  await browser.close();
  return { worker: worker.url(), isInOwn };
}
