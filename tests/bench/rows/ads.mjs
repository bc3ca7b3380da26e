// What ad blocking costs a page that has no ads: two sessions side by side, one of which blocks, load it by turns.

import { Cdp } from '../cdp.mjs';
import { Daemon } from '../daemon.mjs';
import { gateway } from '../docker.mjs';
import { serveSite } from '../site.mjs';
import { now, summary, timed } from '../stats.mjs';
import { goal } from '../table.mjs';
import { alternate } from './relay.mjs';

/** Loads before the other session has its turn. */
const BLOCK = 5;

export async function ads({ binary, network, rounds, table, progress }) {
  const pool = { POOL_CHROMIUM_HEADLESS: 2, POOL_CHROMIUM_HEADED: 0, POOL_FIREFOX_HEADED: 0, POOL_WEBKIT_HEADED: 0 };
  const image = process.env.BENCH_IMAGE ? { WORKER_CHROMIUM_IMAGE: process.env.BENCH_IMAGE } : {};
  const daemon = await Daemon.start(binary, { ...pool, ...image });
  let site;
  const browsers = [];
  try {
    site = await serveSite(await gateway(network));
    const times = { plain: [], blocking: [] };
    // The first session that blocks has the daemon compile the rules.
    for (let round = -1; round < rounds; round += 1) {
      for (const [kind, advanced] of [['plain', {}], ['blocking', { advanced: { block_ads: true } }]]) {
        await daemon.full();
        const [ms, session] = await timed(() => daemon.create({ headless: true, ...advanced }));
        if (round < 0) browsers.push(await open(session));
        else times[kind].push(ms);
        if (round >= 0) await daemon.end(session);
      }
      progress(`${round + 1} of ${rounds} rounds of sessions`);
    }
    const [plain, blocking] = [summary(times.plain), summary(times.blocking)];
    table.add({ measure: 'create with block_ads', unit: 'ms', ...blocking, against: { name: 'without', ...plain } });
    const load = (browser) => browser.load(`${site.url}rich?${now()}`);
    for (const browser of browsers) await load(browser);
    const [bare, judged] = await alternate(browsers, rounds * 2, async (browser) => {
      const samples = [];
      for (let count = 0; count < BLOCK; count += 1) samples.push(await load(browser));
      return samples;
    });
    table.add({
      ...{ measure: 'page of 40 requests and 1 MB without ads, block_ads', unit: 'ms', ...summary(judged) },
      ...{ against: { name: 'without', ...summary(bare) }, goal: goal.atMost(1.1) },
    });
  } finally {
    for (const browser of browsers) browser.close();
    site?.close();
    await daemon.stop();
  }
}

async function open(session) {
  const browser = await Cdp.connect(session.websocket_url);
  await browser.openPage();
  return browser;
}
