// The SDKs of browsers as a service, unmodified: they learn Warmpool's address from the one environment variable that each of them
// has for it. FLOW names the service.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import * as browserbase from './hosted_browserbase.mjs';
import * as kernel from './hosted_kernel.mjs';
import * as steel from './hosted_steel.mjs';
import { UPLOAD, UPLOAD_NAME, run, sha256 } from './session.mjs';

const services = { browserbase, kernel, steel };

await run(async (settings) => services[process.env.FLOW].flow({ ...settings, ...steps(settings) }));

/** What a user does in a browser, whoever has made it. */
function steps({ site }) {
  return {
    /** The first page of the browser at this address. */
    async connect(url) {
      const browser = await chromium.connectOverCDP(url);
      const [context] = browser.contexts();
      return { browser, context, page: context.pages()[0] };
    },

    async signIn(page, user) {
      await page.goto(`${site}/`);
      await page.evaluate((name) => {
        document.cookie = `login=${name}; path=/; max-age=10000`;
        localStorage.login = name;
      }, user);
    },

    async checkSignedIn(page, user) {
      await page.goto(`${site}/`);
      const seen = await page.evaluate(() => [document.cookie, localStorage.login ?? null]);
      assert.deepEqual(seen, [`login=${user}`, user], 'still signed in');
    },

    /** A page takes the file that lies at this path beside the browser. */
    async choose({ context, page }, path) {
      await page.goto(`${site}/upload`);
      const cdp = await context.newCDPSession(page);
      const { root } = await cdp.send('DOM.getDocument');
      const { nodeId } = await cdp.send('DOM.querySelector', { nodeId: root.nodeId, selector: '#file' });
      await cdp.send('DOM.setFileInputFiles', { nodeId, files: [path] });
      await page.click('#send');
      const echo = JSON.parse(await page.textContent('#echo'));
      assert.deepEqual(echo, { name: UPLOAD_NAME, size: UPLOAD.length, sha256: sha256(UPLOAD) });
    },

    /** Downloads a file and answers its hash. */
    async download(page) {
      await page.goto(`${site}/downloads`);
      await Promise.all([page.waitForEvent('download'), page.click('#file')]);
      return page.textContent('#sha256');
    },

    /** Checks that a call is refused with this status, and that the message has these words. */
    async refused(call, status, ...words) {
      const error = await call.then(
        () => assert.fail(`${words} was not refused`),
        (error) => error,
      );
      assert.equal(error.status, status, String(error));
      for (const word of words) assert.ok(String(error.message).includes(word), `${word} in ${error.message}`);
      return error;
    },
  };
}
