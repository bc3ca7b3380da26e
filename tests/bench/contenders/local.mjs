// No service at all: Puppeteer launches Debian's Chromium on this machine.

import { existsSync } from 'node:fs';
import puppeteer from 'puppeteer-core';
import { visit } from './page.mjs';

/** The browser itself; the wrapper script in the search path would cost it some milliseconds. */
const PLACES = ['/usr/lib/chromium/chromium', '/usr/bin/chromium'];

/** Chromium on this machine, if there is one. */
export const chromium = PLACES.find((place) => existsSync(place));

/** Chromium refuses to run sandboxed for root. */
export const sandboxArgs = process.getuid() === 0 ? ['--no-sandbox'] : [];

/** A Chromium of this machine with a debugging port: {url, stop}. */
export async function plainBrowser() {
  const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args: sandboxArgs });
  return { url: browser.wsEndpoint(), stop: () => browser.close() };
}

export function local(site) {
  return {
    name: 'local launch',
    visit: () =>
      visit(site, {
        create: () => puppeteer.launch({ executablePath: chromium, headless: true, args: sandboxArgs }),
        attach: (browser) => browser,
        release: (browser) => browser.close(),
      }),
    stop: () => {},
  };
}
