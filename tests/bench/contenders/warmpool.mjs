// Warmpool itself, by Puppeteer.

import puppeteer from 'puppeteer-core';
import { visit } from './page.mjs';

/** A running daemon as a contender. */
export function warmpool(daemon, site, headless) {
  return {
    name: `warmpool ${headless ? 'headless' : 'headed'}`,
    visit: () =>
      visit(site, {
        create: () => daemon.create({ headless }),
        attach: (session) => puppeteer.connect({ browserWSEndpoint: session.websocket_url }),
        release: (session) => daemon.end(session),
      }),
    stop: () => {},
  };
}
