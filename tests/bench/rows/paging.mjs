// What workers that wait take once their memory went to swap, and what that costs the clients who get them: beside a daemon that
// leaves it where it is, by turns.

import { readFile, readdir } from 'node:fs/promises';
import { memory } from '../cgroup.mjs';
import { Daemon } from '../daemon.mjs';
import { gateway, mainProcess } from '../docker.mjs';
import { serveSite } from '../site.mjs';
import { now, pause, rotated, summary, until } from '../stats.mjs';
import { goal } from '../table.mjs';
import { KINDS, POOL, waitingContainer } from '../waiting.mjs';
import { firstPage } from './engines.mjs';

const DISCARDED = 1;
/** How long a worker waits before it is paged out, in seconds. */
const AFTER = 2;

export async function paging({ binary, network, rounds, table, progress }) {
  const free = /^SwapFree:\s+(\d+) kB/m.exec(await readFile('/proc/meminfo', 'utf8'))?.[1];
  if (!(Number(free) > 2 << 20)) {
    table.note('paging was not measured: it takes 2 GB of free swap, such as zram');
    return;
  }
  const site = await serveSite(await gateway(network));
  const daemons = [];
  try {
    daemons.push(await Daemon.start(binary, POOL));
    daemons.push(await Daemon.start(binary, { ...POOL, WORKER_PAGE_OUT_AFTER: `${AFTER}s` }));
    await compare(daemons, site.url, rounds, table, progress);
  } finally {
    for (const daemon of daemons) await daemon.stop();
    site.close();
  }
}

async function compare([plain, paged], page, rounds, table, progress) {
  const times = new Map(KINDS.map(([engine]) => [engine, new Map([[plain, []], [paged, []]])]));
  const sizes = new Map(KINDS.map(([engine]) => [engine, new Map([[plain, []], [paged, []]])]));
  for (let round = -DISCARDED; round < rounds; round += 1) {
    for (const [engine, headless] of KINDS) {
      for (const daemon of rotated([plain, paged], round + DISCARDED)) {
        await waiting(plain, 0);
        await waiting(paged, KINDS.length);
        const size = await used(daemon, engine);
        const from = now();
        const session = await daemon.create({ browser_type: engine, headless }, 'webdriver/');
        await firstPage(session.connect_url, page);
        const took = now() - from;
        await daemon.end(session);
        if (round < 0) continue;
        times.get(engine).get(daemon).push(took);
        sizes.get(engine).get(daemon).push(size);
      }
    }
    if (round >= 0) progress(`round ${round + 1} of ${rounds}`);
  }
  const share = await compressed();
  for (const [engine] of KINDS) {
    const [of, mb] = [times.get(engine), sizes.get(engine)];
    const against = (samples) => ({ name: 'never paged out', p50: summary(samples).p50 });
    const field = (daemon, name) => mb.get(daemon).map((size) => size[name]);
    const used = { unit: 'MB', against: against(field(plain, 'used')) };
    table.add({ measure: `${engine}: a waiting worker paged out, memory`, ...used, ...summary(field(paged, 'used')), goal: goal.atMost(0.67) });
    if (share !== undefined) {
      const all = mb.get(paged).map(({ used, swap }) => used + swap * share);
      table.add({ measure: `${engine}: the same, with its part of zram`, ...used, ...summary(all), goal: goal.atMost(0.67) });
    }
    const first = { measure: `${engine}: create to first page by WebDriver, paged out`, unit: 'ms', ...summary(of.get(paged)) };
    table.add({ ...first, against: against(of.get(plain)) });
  }
}

/** Waits until the pool is full and so many of its workers are in swap. */
async function waiting(daemon, count) {
  await daemon.full();
  await until('the workers to be paged out', 60, async () => {
    const sizes = await Promise.all((await daemon.containers()).map(async ({ id }) => memory(await mainProcess(id))));
    return sizes.filter(({ swap }) => swap > 20).length === count;
  }, 250);
  // What the kernel has to do after that.
  await pause(200);
}

/** Memory of the daemon's waiting worker of an engine. */
async function used(daemon, engine) {
  return memory(await mainProcess((await waitingContainer(daemon, engine)).id));
}

/** What a byte in swap takes of memory, where all swap is zram. */
async function compressed() {
  const swaps = (await readFile('/proc/swaps', 'utf8')).trim().split('\n').slice(1).map((line) => line.split(/\s+/)[0]);
  if (!swaps.every((name) => name.startsWith('/dev/zram'))) return undefined;
  const devices = (await readdir('/sys/block')).filter((name) => swaps.includes(`/dev/${name}`));
  const stats = await Promise.all(devices.map((name) => readFile(`/sys/block/${name}/mm_stat`, 'utf8')));
  const sum = (at) => stats.reduce((all, text) => all + Number(text.trim().split(/\s+/)[at]), 0);
  return sum(2) / sum(0);
}
