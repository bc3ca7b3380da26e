// Crawlee on Warmpool: node crawlee.mjs PAGE, with WARMPOOL_URL and WARMPOOL_SECRET_KEY in the environment.
import { Configuration, PuppeteerCrawler } from '@crawlee/puppeteer';
import puppeteer from 'puppeteer-core';

const { WARMPOOL_URL, WARMPOOL_SECRET_KEY } = process.env;
const browserWSEndpoint = `${WARMPOOL_URL.replace('http', 'ws')}?token=${WARMPOOL_SECRET_KEY}`;
const crawler = new PuppeteerCrawler(
  {
    // Crawlee believes that it launches its browser.
    launchContext: { launcher: { launch: () => puppeteer.connect({ browserWSEndpoint }), product: 'chrome' } },
    browserPoolOptions: { useFingerprints: false },
    maxRequestsPerCrawl: 1,
    requestHandler: async ({ page }) => console.log('title:', await page.title()),
  },
  new Configuration({ persistStorage: false }),
);
await crawler.run([process.argv[2]]);
