// What freezing saves while workers wait, and what it costs the clients who get them: beside a daemon that keeps its workers awake,
// by turns.

import puppeteer from 'puppeteer-core';
import { percentOfCore } from '../cgroup.mjs';
import { Daemon } from '../daemon.mjs';
import { gateway, mainProcess } from '../docker.mjs';
import { serveSite } from '../site.mjs';
import { now, pause, rotated, summary } from '../stats.mjs';
import { goal } from '../table.mjs';
import { KINDS, POOL, waitingContainer } from '../waiting.mjs';
import { firstPage } from './engines.mjs';

const DISCARDED = 1;
/** Time until a browser does no more than it does whenever it waits, in milliseconds. */
const SETTLE = 8000;

export async function freezing({ binary, network, rounds, quick, table, progress }) {
  const site = await serveSite(await gateway(network));
  const daemons = [];
  try {
    for (const freeze of [true, false]) daemons.push(await Daemon.start(binary, { ...POOL, WORKER_FREEZE: String(freeze) }));
    await waiting(daemons, quick ? 5 : 20, table);
    await clients(daemons, site.url, rounds, table, progress);
  } finally {
    for (const daemon of daemons) await daemon.stop();
    site.close();
  }
}

/** Processor time of workers that wait. */
async function waiting(daemons, seconds, table) {
  await pause(SETTLE);
  for (const [engine] of KINDS) {
    const pids = await Promise.all(daemons.map(async (daemon) => mainProcess((await waitingContainer(daemon, engine)).id)));
    const [frozen, awake] = await percentOfCore(pids, seconds);
    const measure = `${engine}: a waiting worker, processor over ${seconds} s`;
    table.add({ measure, unit: '% of a core', ...summary([frozen]), against: { name: 'kept awake', p50: awake } });
  }
}

async function clients(daemons, page, rounds, table, progress) {
  const times = new Map([['attach', daemons.map(() => [])], ...KINDS.map(([engine]) => [engine, daemons.map(() => [])])]);
  for (let round = -DISCARDED; round < rounds; round += 1) {
    for (const [at, daemon] of rotated([...daemons.entries()], round + DISCARDED)) {
      const keep = (name, took) => round >= 0 && times.get(name)[at].push(took);
      await full(daemons);
      keep('attach', await attach(daemon));
      for (const [engine, headless] of KINDS) {
        await full(daemons);
        const from = now();
        const session = await daemon.create({ browser_type: engine, headless }, 'webdriver/');
        await firstPage(session.connect_url, page);
        keep(engine, now() - from);
        await daemon.end(session);
      }
    }
    if (round >= 0) progress(`round ${round + 1} of ${rounds}`);
  }
  const add = (measure, name, aim) => {
    const [frozen, awake] = times.get(name).map(summary);
    table.add({ measure, unit: 'ms', ...frozen, against: { name: 'kept awake', p50: awake.p50 }, goal: aim });
  };
  add('chromium: create and attach by Puppeteer', 'attach', goal.p50(5));
  for (const [engine] of KINDS) add(`${engine}: create to first page by WebDriver`, engine);
}

/** Waits until everybody's workers are there, and the frozen ones frozen. */
async function full(daemons) {
  for (const daemon of daemons) await daemon.full();
  await pause(2500);
}

async function attach(daemon) {
  const from = now();
  const session = await daemon.create({ headless: true });
  const browser = await puppeteer.connect({ browserWSEndpoint: session.websocket_url });
  const took = now() - from;
  await browser.disconnect();
  await daemon.end(session);
  return took;
}
