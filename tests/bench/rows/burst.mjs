// Many clients at once on a small pool: how long each waits for a browser of its own.

import { browserless } from '../contenders/browserless.mjs';
import { warmpool } from '../contenders/warmpool.mjs';
import { Daemon } from '../daemon.mjs';
import { gateway } from '../docker.mjs';
import { serveSite } from '../site.mjs';
import { rotated, summary } from '../stats.mjs';
import { goal } from '../table.mjs';

const CLIENTS = 50;
/** How many browsers may run at once, here and there. */
const LIMIT = 10;
const SETTINGS = {
  ...{ POOL_CHROMIUM_HEADLESS: LIMIT, POOL_MAX_WORKERS: LIMIT, SESSION_QUEUE_WAIT: "5m" },
  ...{ POOL_CHROMIUM_HEADED: 0, POOL_FIREFOX_HEADED: 0, POOL_WEBKIT_HEADED: 0 },
};

export async function burst({ binary, network, rounds, quick, peers, table, progress }) {
  const site = await serveSite(await gateway(network));
  const daemon = await Daemon.start(binary, SETTINGS);
  const contenders = [warmpool(daemon, site.url, true)];
  try {
    if (peers) contenders.push(await browserless(site.url, { CONCURRENT: LIMIT, QUEUED: CLIENTS, TIMEOUT: 600_000 }));
    const waits = new Map(contenders.map(({ name }) => [name, []]));
    for (let round = 0; round < (quick ? 1 : Math.min(rounds, 3)); round += 1) {
      for (const contender of rotated(contenders, round)) {
        await daemon.full(180);
        const visits = Array.from({ length: CLIENTS }, async () => (await contender.visit()).total);
        const all = await Promise.all(visits);
        waits.get(contender.name).push(...all);
        progress(`${contender.name}: the last after ${Math.max(...all).toFixed(0)} ms`);
      }
    }
    const [ours, theirs] = contenders.map(({ name }) => ({ name, ...summary(waits.get(name)) }));
    const measure = `${CLIENTS} clients at once, ${LIMIT} browsers: first page after`;
    const against = (field) => theirs && { name: theirs.name, p50: theirs[field] };
    table.add({ measure, unit: 'ms', ...summary(waits.get(ours.name)), against: against('p50'), goal: theirs && goal.atMost(1) });
    table.add({ measure: `${measure}, the slowest of a hundred`, unit: 'ms', p50: ours.p99, n: ours.n, against: against('p99') });
  } finally {
    for (const contender of contenders) await contender.stop();
    await daemon.stop();
    site.close();
  }
}
