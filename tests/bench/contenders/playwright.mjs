// Playwright's own server, by Playwright: each connection launches a browser.

import { fileURLToPath } from 'node:url';
import { chromium as playwright } from 'playwright-core';
import { Api } from '../api.mjs';
import { chromium, sandboxArgs } from './local.mjs';
import { visit } from './page.mjs';
import { freePort, startService } from './service.mjs';

const SERVER = fileURLToPath(new URL('../node_modules/playwright-core/cli.js', import.meta.url));

export async function playwrightServer(site) {
  const port = await freePort();
  const api = new Api(`http://127.0.0.1:${port}`);
  // `--unsafe` is what lets a client say which browser to launch.
  const words = [SERVER, 'run-server', '--port', String(port), '--host', '127.0.0.1', '--unsafe'];
  const stop = await startService(words, {}, async () => (await api.request('GET', '/')).status < 500);
  const launch = { executablePath: chromium, headless: true, args: sandboxArgs };
  const headers = { 'x-playwright-browser': 'chromium', 'x-playwright-launch-options': JSON.stringify(launch) };
  return {
    name: 'playwright run-server',
    visit: () =>
      visit(site, {
        create: () => undefined,
        attach: () => playwright.connect(`ws://127.0.0.1:${port}/`, { headers }),
        release: (_, browser) => browser.close(),
      }),
    stop: () => {
      api.close();
      return stop();
    },
  };
}
