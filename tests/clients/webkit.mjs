// Playwright on WebKit: what its client for the inspector of a stock WebKit can do.

import assert from 'node:assert/strict';
import { webkit } from 'playwright-core';
import { form } from './pages.mjs';
import { Session, checkPng, run, sha256, until } from './session.mjs';

/** As long as what some init scripts bring along: more than one frame, and more than one buffer. */
const LARGE = 300_000;

await run(async (settings) => {
  if (settings.flow === 'attach') return attach(settings);
  const { site } = settings;
  const session = await Session.create(settings, '', {
    url: `${site}/`,
    headless: settings.headless,
    session_timeout: 300,
  });
  const headers = session.connect_headers;
  const browser = await webkit.connectOverCDP(session.websocket_url, { headers });
  const results = { session_id: session.session_id, websocket_url: session.websocket_url, headers };

  const context = browser.contexts()[0];
  const [page] = context.pages();
  await until('the first tab to open the url', async () => (await page.title()) === 'Test site');
  const filler = 'x'.repeat(LARGE);
  await page.addInitScript(`window.large = '${filler}'.length`);
  await form(page, site);
  assert.equal(await page.evaluate(() => window.large), LARGE, 'a large init script arrives');
  const back = await page.evaluate((size) => 'y'.repeat(size), LARGE);
  assert.equal(back.length, LARGE, 'a large answer arrives');

  await page.goto(`${site}/downloads`);
  await page.click('#file');
  const hash = sha256(await session.download('file.bin'));
  assert.equal(hash, await page.textContent('#sha256'));
  await page.goto(`${site}/dialogs`);
  await page.click('#confirm');
  await page.waitForFunction(() => document.querySelector('#answer').textContent === 'false');
  await page.goto(`${site}/paint`);
  results.png = checkPng(await page.screenshot());
  await page.route('**/api/data', (route) => route.fulfill({ json: { from: 'client' } }));
  await page.goto(`${site}/fetch`);
  await page.waitForFunction(() => document.querySelector('#data').textContent !== '');
  assert.equal(await page.textContent('#data'), 'client');
  await page.unroute('**/api/data');

  // What a page opens is there for the next client.
  await page.goto(`${site}/popup`);
  await page.click('#open');
  const pages = await until('two pages', async () => {
    const listed = await (await fetch(`${settings.base}/json`, { headers })).json();
    return listed.length === 2 && listed;
  });
  assert.ok(pages.every((entry) => entry.webSocketDebuggerUrl.includes('/devtools/page/')));

  if (settings.end === 'close') await browser.close();
  return results;
});

/** A client that comes later: it finds the pages of the earlier one. */
async function attach(settings) {
  const headers = JSON.parse(process.env.SESSION_HEADERS);
  const browser = await webkit.connectOverCDP(process.env.SESSION_WS, { headers });
  const pages = browser.contexts()[0].pages();
  assert.equal(pages.length, 2, 'the popup is there too');
  const urls = pages.map((page) => page.url());
  assert.ok(urls.includes(`${settings.site}/popup`), urls.join(' '));
  const child = pages.find((page) => page.url() !== `${settings.site}/popup`);
  await child.waitForSelector('#child');
  await browser.close();
  return { pages: urls };
}
