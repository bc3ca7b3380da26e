// Connects while a session's first page loads: the first tab is always among the pages, and is the one that is seen.
// CLIENT is puppeteer, playwright or selenium, ADDRESSES a list of pages, TIMES how often each is tried.

import assert from 'node:assert/strict';
import { chromium, webkit } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { Browser, Builder } from 'selenium-webdriver';
import { Session, run, until } from './session.mjs';

/** Milliseconds between creating a session and connecting to it. */
const DELAYS = [0, 20, 60, 120, 300];

const visibility = () => document.visibilityState;

/** What a script says, also where the page it was sent to has gone: Firefox's driver answers null then. */
async function lasting(look) {
  let answer;
  await until('a page that stays', async () => {
    answer = await look().catch((error) => {
      if (!/context|navigat|detached/i.test(error.message)) throw error;
    });
    return typeof answer === 'string';
  });
  return answer;
}

const clients = {
  puppeteer: async ({ websocket_url: browserWSEndpoint, protocol }) => {
    const bidi = protocol === 'webdriver-bidi' ? { protocol: 'webDriverBiDi' } : {};
    const browser = await puppeteer.connect({ browserWSEndpoint, ...bidi });
    const pages = await browser.pages();
    return { pages, seen: () => pages[0].evaluate(visibility), leave: () => browser.disconnect() };
  },
  playwright: async ({ websocket_url, connect_headers: headers = {} }, engine) => {
    const browser = await (engine === 'webkit' ? webkit : chromium).connectOverCDP(websocket_url, { headers });
    const pages = browser.contexts()[0].pages();
    return { pages, seen: () => pages[0].evaluate(visibility), leave: () => browser.close() };
  },
  selenium: async ({ connect_url }, engine) => {
    const names = { chromium: Browser.CHROME, firefox: Browser.FIREFOX, webkit: 'MiniBrowser' };
    const driver = await new Builder().usingServer(connect_url).forBrowser(names[engine]).build();
    const pages = await driver.getAllWindowHandles();
    return { pages, seen: () => driver.executeScript('return document.visibilityState'), leave: () => driver.quit() };
  },
};

await run(async (settings) => {
  const connect = clients[process.env.CLIENT];
  const tries = JSON.parse(process.env.ADDRESSES).flatMap((url) =>
    DELAYS.slice(0, Number(process.env.TIMES)).map((delay) => ({ url, delay })));
  for (const { url, delay } of tries) {
    const kind = process.env.CLIENT === 'selenium' ? 'webdriver/' : '';
    const session = await Session.create(settings, kind, { url, headless: settings.headless, session_timeout: 60 });
    await new Promise((wake) => setTimeout(wake, delay));
    const { pages, seen, leave } = await connect(session, settings.browser);
    assert.equal(pages.length, 1, `pages of ${url} after ${delay} ms`);
    assert.equal(await lasting(seen), 'visible', `${url} after ${delay} ms`);
    await leave();
    await fetch(`${settings.base}/sessions/${session.session_id}`, {
      method: 'DELETE',
      headers: { 'service-secret-key': settings.key },
    });
  }
  return { tries: tries.length };
});
