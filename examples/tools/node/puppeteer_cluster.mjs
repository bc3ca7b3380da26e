// puppeteer-cluster on Warmpool, a browser for each worker of the cluster: node puppeteer_cluster.mjs PAGE, with WARMPOOL_URL
// and WARMPOOL_SECRET_KEY in the environment.
import { Cluster } from 'puppeteer-cluster';
import puppeteer from 'puppeteer-core';

const { WARMPOOL_URL, WARMPOOL_SECRET_KEY } = process.env;
const browserWSEndpoint = `${WARMPOOL_URL.replace('http', 'ws')}?token=${WARMPOOL_SECRET_KEY}`;
const cluster = await Cluster.launch({
  concurrency: Cluster.CONCURRENCY_BROWSER,
  maxConcurrency: 2,
  puppeteer: { launch: () => puppeteer.connect({ browserWSEndpoint }) },
});
await cluster.task(async ({ page, data }) => {
  await page.goto(data);
  console.log('title:', await page.title());
});
cluster.queue(process.argv[2]);
cluster.queue(process.argv[2]);
await cluster.idle();
await cluster.close();
