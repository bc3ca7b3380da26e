// Browserless from its npm package, by Puppeteer: each connection launches a browser.

import { fileURLToPath } from 'node:url';
import puppeteer from 'puppeteer-core';
import { Api } from '../api.mjs';
import { chromium } from './local.mjs';
import { visit } from './page.mjs';
import { freePort, startService } from './service.mjs';

const PROGRAM = fileURLToPath(new URL('../peers/browserless.mjs', import.meta.url));
const TOKEN = 'bench';

export async function browserless(site, limits = { CONCURRENT: '10' }) {
  const port = await freePort();
  const api = new Api(`http://127.0.0.1:${port}`);
  const env = { HOST: '127.0.0.1', PORT: String(port), TOKEN, ...limits, DEBUG: '-*', BENCH_CHROMIUM: chromium };
  const ready = async () => (await api.request('GET', `/json/version?token=${TOKEN}`)).status === 200;
  const stop = await startService([PROGRAM], env, ready);
  const url = `ws://127.0.0.1:${port}/chromium?token=${TOKEN}`;
  return {
    name: 'browserless',
    url,
    call: (name) => `http://127.0.0.1:${port}/chromium/${name}?token=${TOKEN}`,
    visit: () =>
      visit(site, {
        create: () => undefined,
        attach: () => puppeteer.connect({ browserWSEndpoint: url }),
        release: (_, browser) => browser.close(),
      }),
    stop: () => {
      api.close();
      return stop();
    },
  };
}
