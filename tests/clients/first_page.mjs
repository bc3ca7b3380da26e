// Connects while a session's first page loads: the first tab is always among the pages, and is the one that is seen.
// CLIENT is puppeteer or playwright, ADDRESSES a list of pages, TIMES how often each is tried.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { Session, run } from './session.mjs';

/** Milliseconds between creating a session and connecting to it. */
const DELAYS = [0, 20, 60, 120, 300];

const clients = {
  puppeteer: async (url) => {
    const browser = await puppeteer.connect({ browserWSEndpoint: url });
    return { pages: await browser.pages(), leave: () => browser.disconnect() };
  },
  playwright: async (url) => {
    const browser = await chromium.connectOverCDP(url);
    return { pages: browser.contexts()[0].pages(), leave: () => browser.close() };
  },
};

await run(async (settings) => {
  const connect = clients[process.env.CLIENT];
  const tries = JSON.parse(process.env.ADDRESSES).flatMap((url) =>
    DELAYS.slice(0, Number(process.env.TIMES)).map((delay) => ({ url, delay })));
  for (const { url, delay } of tries) {
    const session = await Session.create(settings, '', { url, headless: settings.headless, session_timeout: 60 });
    await new Promise((wake) => setTimeout(wake, delay));
    const { pages, leave } = await connect(session.websocket_url);
    assert.equal(pages.length, 1, `pages of ${url} after ${delay} ms`);
    const seen = await pages[0].evaluate(() => document.visibilityState);
    assert.equal(seen, 'visible', `${url} after ${delay} ms`);
    await leave();
    await fetch(`${settings.base}/sessions/${session.session_id}`, {
      method: 'DELETE',
      headers: { 'service-secret-key': settings.key },
    });
  }
  return { tries: tries.length };
});
