// DevTools through Warmpool, and beside the browser: the same browser, the same moment. And with a Chromium of this machine, as
// its users have it without a service.

import { chromium, plainBrowser } from '../contenders/local.mjs';
import { startCopier } from '../copier.mjs';
import { mainProcess } from '../docker.mjs';
import { timeSpent } from '../processes.mjs';
import { rotated, summary } from '../stats.mjs';
import { goal } from '../table.mjs';
import { Probe, withTwoProbes } from '../probes.mjs';

/** Round trips before the other probe has its turn. */
const BLOCK = 20;
const MEGABYTES = 16;
const BROWSER_PORT = 9222;
/** Round trips whose processor time is measured at once. */
const TRIPS = 1000;

export async function relay({ daemon, quick, table, progress, peer }) {
  await daemon.full();
  const session = await daemon.create({ headless: true });
  // The worker that takes its place starts up first: it would weigh on the measurement that runs then.
  await daemon.full();
  const pid = await mainProcess((await daemon.container(session)).id);
  const [trips, results] = quick ? [100, 3] : [1000, 20];
  const plain = chromium && (await plainBrowser());
  const copier = await startCopier(pid, BROWSER_PORT);
  let roundTrip;
  try {
    await withTwoProbes(pid, async (through, direct) => {
      await through.ask('browser', { websocket: session.websocket_url });
      await direct.ask('browser', { debugging: `http://127.0.0.1:${BROWSER_PORT}` });
      const others = [{ name: 'beside the browser', probe: direct }];
      if (plain) others.push({ name: 'a plain Chromium', probe: await probeOf({ websocket: plain.url }) });
      const copied = copier && { name: 'through socat', probe: await probeOf({ debugging: copier.url }) };
      try {
        roundTrip = await roundTrips(through, copied ? [...others, copied] : others, trips, table);
        progress('round trips done');
        await largeResults(through, others, results, table);
      } finally {
        for (const { probe } of [...others.slice(1), ...(copied ? [copied] : [])]) probe.stop();
      }
      await processorTime({ through, pids: { daemon: daemon.pid, agent: pid }, rounds: quick ? 2 : 10, table });
    });
  } finally {
    copier?.stop();
    await plain?.stop();
  }
  await daemon.end(session);
  if (peer) await other(peer, trips, results, table, roundTrip);
}

async function probeOf(browser) {
  const probe = Probe.start();
  await probe.ask('browser', browser);
  return probe;
}

/** Round trips by turns, ours first; answers ours. Only what has a browser of its own behind it has a goal. */
async function roundTrips(through, others, trips, table) {
  const all = [through, ...others.map(({ probe }) => probe)];
  // The first of everything is slower on all sides.
  for (const probe of all) await probe.ask('roundTrips', { count: 50 });
  const times = await alternate(all, trips / BLOCK, (probe) => probe.ask('roundTrips', { count: BLOCK }));
  const [ours, ...theirs] = times.map(summary);
  others.forEach(({ name }, at) => {
    const wanted = name === 'through socat' ? {} : { goal: goal.atMost(1.15) };
    table.add({ measure: 'round trip of Runtime.evaluate', unit: 'ms', ...ours, against: { name, ...theirs[at] }, ...wanted });
  });
  return ours;
}

/** Large results by turns. */
async function largeResults(through, others, rounds, table) {
  const all = [through, ...others.map(({ probe }) => probe)];
  for (const probe of all) await probe.ask('bulk', { megabytes: MEGABYTES });
  const speeds = await alternate(all, rounds, async (probe) => [await probe.ask('bulk', { megabytes: MEGABYTES })]);
  const [ours, ...theirs] = speeds.map(summary);
  others.forEach(({ name }, at) =>
    table.add({
      ...{ measure: `result of ${MEGABYTES} MB`, unit: 'MB/s', p50: ours.p50, n: speeds[0].length },
      ...{ against: { name, ...theirs[at] }, goal: goal.atLeast(0.97) },
    }),
  );
}

/** Processor time that each relay of the way takes, for small messages and for large ones. */
async function processorTime({ through, pids, rounds, table }) {
  const [small, large] = [[], []];
  for (let round = 0; round < rounds; round += 1) {
    small.push(await timeSpent(pids, () => through.ask('roundTrips', { count: TRIPS })));
    large.push(await timeSpent(pids, () => through.ask('bulk', { megabytes: MEGABYTES })));
  }
  const line = (name, what, times, each) =>
    table.add({ measure: `${name}: processor time for ${what}`, unit: 'ms', ...summary(times.map((it) => (it[name] * 1000) / each)) });
  for (const name of Object.keys(pids)) {
    line(name, `${TRIPS} round trips of Runtime.evaluate`, small, 1);
    line(name, 'each MB of a result', large, MEGABYTES);
  }
}

/** The same through a peer, for comparison with the lines above. */
async function other(peer, trips, results, table, roundTrip) {
  const probe = Probe.start();
  try {
    await probe.ask('browser', { websocket: peer.url });
    await probe.ask('roundTrips', { count: 50 });
    const times = await probe.ask('roundTrips', { count: trips });
    const measure = 'round trip of Runtime.evaluate';
    table.add({ measure, unit: 'ms', ...roundTrip, against: { name: peer.name, ...summary(times) }, goal: goal.atMost(1) });
    const speeds = [];
    for (let round = 0; round <= results; round += 1) speeds.push(await probe.ask('bulk', { megabytes: MEGABYTES }));
    const { p50, n } = summary(speeds.slice(1));
    table.add({ measure: `${peer.name}: result of ${MEGABYTES} MB`, unit: 'MB/s', p50, n });
  } finally {
    probe.stop();
  }
}

/** Lets contenders take turns, each going first in its rounds; answers all samples of each. */
export async function alternate(contenders, rounds, work) {
  const samples = contenders.map(() => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const at of rotated([...contenders.keys()], round)) samples[at].push(...(await work(contenders[at])));
  }
  return samples;
}
