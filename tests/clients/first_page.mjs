// Connects while a session's first page loads: the first tab is always among the pages, is the one that is seen, and gets its page.
// CLIENT is puppeteer, playwright or selenium, ADDRESSES a list of pages, each with the title that it ends with or null where it
// does not load, TIMES how often each is tried.

import assert from 'node:assert/strict';
import { chromium, webkit } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { Browser, Builder } from 'selenium-webdriver';
import { Session, run, until } from './session.mjs';

/** Milliseconds between creating a session and connecting to it. */
const DELAYS = [0, 20, 60, 120, 300];

const look = () => [document.visibilityState, document.title];

/** What a script says, also where the page it was sent to has gone: Firefox's driver answers null then. */
async function lasting(seen) {
  return until('a page that stays', async () => {
    const answer = await seen().catch((error) => {
      if (!/context|navigat|detached/i.test(error.message)) throw error;
    });
    return Array.isArray(answer) && answer;
  });
}

const clients = {
  puppeteer: async ({ websocket_url: browserWSEndpoint, protocol }) => {
    const bidi = protocol === 'webdriver-bidi' ? { protocol: 'webDriverBiDi' } : {};
    const browser = await puppeteer.connect({ browserWSEndpoint, ...bidi });
    const pages = await browser.pages();
    return { pages, seen: () => pages[0].evaluate(look), leave: () => browser.disconnect() };
  },
  playwright: async ({ websocket_url, connect_headers: headers = {} }, engine) => {
    const browser = await (engine === 'webkit' ? webkit : chromium).connectOverCDP(websocket_url, { headers });
    const pages = browser.contexts()[0].pages();
    return { pages, seen: () => pages[0].evaluate(look), leave: () => browser.close() };
  },
  selenium: async ({ connect_url }, engine) => {
    const names = { chromium: Browser.CHROME, firefox: Browser.FIREFOX, webkit: 'MiniBrowser' };
    const driver = await new Builder().usingServer(connect_url).forBrowser(names[engine]).build();
    const pages = await driver.getAllWindowHandles();
    return { pages, seen: () => driver.executeScript(look), leave: () => driver.quit() };
  },
};

await run(async (settings) => {
  const connect = clients[process.env.CLIENT];
  const tries = JSON.parse(process.env.ADDRESSES).flatMap(([url, title]) =>
    DELAYS.slice(0, Number(process.env.TIMES)).map((delay) => ({ url, title, delay })));
  for (const { url, title, delay } of tries) {
    const kind = process.env.CLIENT === 'selenium' ? 'webdriver/' : '';
    const session = await Session.create(settings, kind, { url, headless: settings.headless, session_timeout: 60 });
    await new Promise((wake) => setTimeout(wake, delay));
    const { pages, seen, leave } = await connect(session, settings.browser);
    assert.equal(pages.length, 1, `pages of ${url} after ${delay} ms`);
    assert.equal((await lasting(seen))[0], 'visible', `${url} after ${delay} ms`);
    if (title) await until(`${url} in the first tab`, async () => (await lasting(seen))[1] === title);
    await leave();
    await fetch(`${settings.base}/sessions/${session.session_id}`, {
      method: 'DELETE',
      headers: { 'service-secret-key': settings.key },
    });
  }
  return { tries: tries.length };
});
