// What freezing saves while workers wait, and what it costs the clients who get them: beside a daemon that keeps its workers awake,
// by turns. And what attaching takes by itself: to a local browser that runs already.

import puppeteer from 'puppeteer-core';
import { percentOfCore } from '../cgroup.mjs';
import { chromium, sandboxArgs } from '../contenders/local.mjs';
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
/** How often waiting workers are looked at. */
const LOOKS = 5;
/** Time until a worker that is ready is frozen, and a little more, in milliseconds. */
const UNTIL_FROZEN = 2500;

export async function freezing({ binary, network, rounds, quick, table, progress }) {
  const site = await serveSite(await gateway(network));
  const daemons = [];
  const running = chromium && (await puppeteer.launch({ executablePath: chromium, headless: true, args: sandboxArgs }));
  try {
    for (const freeze of [true, false]) daemons.push(await Daemon.start(binary, { ...POOL, WORKER_FREEZE: String(freeze) }));
    await waiting(daemons, quick ? 5 : 20, table);
    await clients({ daemons, running }, site.url, rounds, table, progress);
  } finally {
    await running?.close();
    for (const daemon of daemons) await daemon.stop();
    site.close();
  }
}

/** Processor time of workers that wait, of all at once and several times: what a browser does meanwhile comes in bursts. */
async function waiting(daemons, seconds, table) {
  await pause(SETTLE);
  const pid = async (daemon, engine) => mainProcess((await waitingContainer(daemon, engine)).id);
  const pids = await Promise.all(KINDS.flatMap(([engine]) => daemons.map((daemon) => pid(daemon, engine))));
  const looks = [];
  for (let look = 0; look < LOOKS; look += 1) looks.push(await percentOfCore(pids, seconds));
  const [frozen, awake] = [0, 1].map((at) => KINDS.map((_, kind) => summary(looks.map((shares) => shares[2 * kind + at]))));
  for (const [kind, [engine]] of KINDS.entries()) {
    const measure = `${engine}: a waiting worker, processor over ${seconds} s`;
    table.add({ measure, unit: '% of a core', ...frozen[kind], against: { name: 'kept awake', p50: awake[kind].p50 } });
  }
}

async function clients({ daemons, running }, page, rounds, table, progress) {
  const attached = [];
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
    if (running && round >= 0) attached.push(await attachTo(running.wsEndpoint()));
    if (round >= 0) progress(`round ${round + 1} of ${rounds}`);
  }
  const add = (measure, name, aim) => {
    const [frozen, awake] = times.get(name).map(summary);
    table.add({ measure, unit: 'ms', ...frozen, against: { name: 'kept awake', p50: awake.p50 }, goal: aim });
  };
  add('chromium: create and attach by Puppeteer', 'attach', goal.p50(5));
  if (running) {
    const line = { measure: 'chromium: create and attach by Puppeteer', unit: 'ms', ...summary(times.get('attach')[0]) };
    table.add({ ...line, against: { name: 'attaching to a local browser that runs', ...summary(attached) } });
  }
  for (const [engine] of KINDS) add(`${engine}: create to first page by WebDriver`, engine);
}

/** Waits until everybody's workers are there, and the frozen ones frozen. */
function full(daemons) {
  return Promise.all(daemons.map((daemon) => daemon.full(60, UNTIL_FROZEN)));
}

async function attach(daemon) {
  const from = now();
  const session = await daemon.create({ headless: true });
  const created = now() - from;
  const took = created + (await attachTo(session.websocket_url));
  await daemon.end(session);
  return took;
}

/** How long Puppeteer takes to attach to a browser. */
async function attachTo(browserWSEndpoint) {
  const from = now();
  const browser = await puppeteer.connect({ browserWSEndpoint });
  const took = now() - from;
  await browser.disconnect();
  return took;
}
