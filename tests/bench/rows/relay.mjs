// DevTools through Warmpool, and beside the browser: the same browser, the same moment.

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
  let roundTrip;
  await withTwoProbes(pid, async (through, direct) => {
    await through.ask('browser', { websocket: session.websocket_url });
    await direct.ask('browser', { debugging: `http://127.0.0.1:${BROWSER_PORT}` });
    const pair = [through, direct];
    const [ours, beside, copies] = await roundTrips(pair, pid, trips);
    roundTrip = ours;
    const line = { measure: 'round trip of Runtime.evaluate', unit: 'ms', ...ours };
    table.add({ ...line, against: { name: 'beside the browser', ...beside }, goal: goal.atMost(1.15) });
    if (copies) table.add({ ...line, against: { name: 'through socat', ...copies } });
    progress('round trips done');
    for (const probe of pair) await probe.ask('bulk', { megabytes: MEGABYTES });
    const [fast, bare] = await alternate(pair, results, async (probe) => [await probe.ask('bulk', { megabytes: MEGABYTES })]);
    table.add({
      ...{ measure: `result of ${MEGABYTES} MB`, unit: 'MB/s', p50: summary(fast).p50, n: fast.length },
      ...{ against: { name: 'beside the browser', ...summary(bare) }, goal: goal.atLeast(0.97) },
    });
    await processorTime({ through, pids: { daemon: daemon.pid, agent: pid }, rounds: quick ? 2 : 10, table });
  });
  await daemon.end(session);
  if (peer) await other(peer, trips, results, table, roundTrip);
}

/** Round trips of each of these probes and, where it can be started, through a program that only copies bytes. */
async function roundTrips(probes, pid, trips) {
  const copier = await startCopier(pid, BROWSER_PORT);
  const copied = copier && Probe.start();
  try {
    await copied?.ask('browser', { debugging: copier.url });
    const all = copied ? [...probes, copied] : probes;
    // The first of everything is slower on all sides.
    for (const probe of all) await probe.ask('roundTrips', { count: 50 });
    const times = await alternate(all, trips / BLOCK, (probe) => probe.ask('roundTrips', { count: BLOCK }));
    return times.map(summary);
  } finally {
    copied?.stop();
    copier?.stop();
  }
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
