// Real browsers on a swarm of three engines: how fast services start, what create and the relay cost beside one host, and
// what is lost with a node.

import { Cdp } from '../cdp.mjs';
import { Daemon } from '../daemon.mjs';
import { Probe } from '../probes.mjs';
import { now, pause, rotated, summary, timed, until } from '../stats.mjs';
import { many, onSwarm } from '../swarm.mjs';
import { goal } from '../table.mjs';
import { alternate } from './relay.mjs';

const NODES = 3;
/** The nodes count this machine's cores and memory as theirs, each. */
const SMALL = { WORKER_MEMORY: '1GiB', SWARM_RESERVED_CPUS: 0.1, SWARM_AVOID_FOR: '5s', POOL_MAX_WORKERS: 24 };
const POOL = { POOL_CHROMIUM_HEADED: 0, POOL_FIREFOX_HEADED: 0, POOL_WEBKIT_HEADED: 0, SESSION_QUEUE_WAIT: '5m' };
/** Services started at once. */
const AT_ONCE = [1, 2, 4];
/** Round trips before the other probe has its turn, and megabytes of a result. */
const BLOCK = 20;
const MEGABYTES = 16;
/** A node's loss must be known within this time, in seconds. */
const KNOWN_WITHIN = 30;
/** Rounds in which a node is lost. */
const LOSSES = 20;

export async function swarm({ binary, image, rounds, quick, table, progress }) {
  await onSwarm(image, NODES, async (swarm) => {
    const settings = { ...SMALL, ...POOL };
    for (const atOnce of AT_ONCE) {
      const fleet = await Daemon.start(binary, { ...settings, POOL_CHROMIUM_HEADLESS: NODES, POOL_START_CONCURRENCY: atOnce }, undefined, swarm);
      try {
        const perMinute = await startServices(fleet, quick ? 3 : 9);
        table.add({ measure: `swarm: services with Chromium started a minute, ${atOnce} at once`, unit: '1/min', p50: perMinute });
        progress(`${perMinute.toFixed(0)} services a minute, ${atOnce} at once`);
      } finally {
        await fleet.stop();
      }
    }
    const fleet = await Daemon.start(binary, { ...settings, POOL_CHROMIUM_HEADLESS: 4, POOL_START_CONCURRENCY: 2 }, undefined, swarm);
    try {
      const host = await Daemon.start(binary, { ...POOL, POOL_CHROMIUM_HEADLESS: 4, POOL_MAX_WORKERS: 12 });
      try {
        await creates(fleet, host, rounds, table);
        progress('creates done');
        await relayed(fleet, host, swarm, quick, table);
        progress('relay done');
      } finally {
        await host.stop();
      }
      await lost(fleet, swarm, quick ? 2 : LOSSES, table, progress);
    } finally {
      await fleet.stop();
    }
  });
}

/** Services that a daemon starts in a minute when so many sessions are wanted at once. */
export async function startServices(fleet, count) {
  const sessions = [];
  const [ms] = await timed(async () => {
    await many(count, count, 120, async () => sessions.push(await fleet.create({ headless: true })));
    await fleet.full(120, 0);
  });
  for (const session of sessions) await fleet.end(session);
  return (count / ms) * 60_000;
}

/** The time that a warm worker takes to become a session, on both sides by turns. */
async function creates(fleet, host, rounds, table) {
  const times = new Map([[fleet, []], [host, []]]);
  for (let round = -2; round < rounds; round += 1) {
    for (const daemon of rotated([fleet, host], round + 2)) {
      // Nobody's work in the background is to weigh on somebody else.
      await Promise.all([fleet.full(), host.full()]);
      const [ms, session] = await timed(() => daemon.create({ headless: true }));
      if (round >= 0) times.get(daemon).push(ms);
      await daemon.end(session);
    }
  }
  const against = { name: 'one host', ...summary(times.get(host)) };
  table.add({ measure: 'swarm: create a session', unit: 'ms', ...summary(times.get(fleet)), against, goal: goal.atMost(1.3) });
}

/** A session whose worker is on such a node. Others are ended. */
async function sessionOn(fleet, swarm, wanted, seconds = 300) {
  return until(`a session on ${wanted}`, seconds, async () => {
    const session = await fleet.create({ headless: true });
    const node = await swarm.nodeOf(await fleet.worker(session));
    if (wanted.includes(node)) return { session, node };
    await fleet.end(session);
    // The pool starts the next one where there are fewest.
    await fleet.full(120, 0);
    return undefined;
  });
}

/** Commands and large results, from a node other than the daemon's and from this host, by turns. */
async function relayed(fleet, host, swarm, quick, table) {
  const { session: far } = await sessionOn(fleet, swarm, swarm.names.slice(1));
  const near = await host.create({ headless: true });
  await Promise.all([fleet.full(), host.full()]);
  // Each beside its daemon, so that both have the same way to it.
  const pair = [Probe.enter(swarm.seat), Probe.start()];
  try {
    for (const [at, { websocket_url: websocket }] of [far, near].entries()) await pair[at].ask('browser', { websocket });
    const [trips, results] = quick ? [100, 3] : [1000, 20];
    for (const probe of pair) await probe.ask('roundTrips', { count: 50 });
    const [ours, theirs] = await alternate(pair, trips / BLOCK, (probe) => probe.ask('roundTrips', { count: BLOCK }));
    table.add({
      ...{ measure: 'swarm: round trip of Runtime.evaluate, other node', unit: 'ms', ...summary(ours) },
      ...{ against: { name: 'one host', ...summary(theirs) }, goal: goal.atMost(1.3) },
    });
    for (const probe of pair) await probe.ask('bulk', { megabytes: MEGABYTES });
    const [fast, bare] = await alternate(pair, results, async (probe) => [await probe.ask('bulk', { megabytes: MEGABYTES })]);
    table.add({
      ...{ measure: `swarm: result of ${MEGABYTES} MB, other node`, unit: 'MB/s', p50: summary(fast).p50, n: fast.length },
      ...{ against: { name: 'one host', ...summary(bare) }, goal: goal.atLeast(0.77) },
    });
  } finally {
    for (const probe of pair) probe.stop();
    await fleet.end(far);
    await host.end(near);
  }
}

/** Cuts one node off after another, and looks which sessions are lost. */
async function lost(fleet, swarm, rounds, table, progress) {
  const seconds = [];
  let clean = 0;
  let survivors = [];
  try {
    for (let round = 0; round < rounds; round += 1) {
      const [known, wrong, living] = await loseNode(fleet, swarm, swarm.names[1 + (round % (NODES - 1))], survivors);
      survivors = living;
      seconds.push(...known);
      if (wrong.length === 0) clean += 1;
      progress(`node lost, round ${round + 1} of ${rounds}: ${known.map((after) => after.toFixed(1))} s ${wrong}`);
    }
    for (const one of survivors) await fleet.end(one.session);
  } finally {
    const measure = 'swarm: a lost node is known (p99: worst)';
    if (seconds.length > 0) table.add({ measure, unit: 's', ...summary(seconds), p99: Math.max(...seconds), goal: goal.both(KNOWN_WITHIN, KNOWN_WITHIN) });
    table.add({ measure: `swarm: rounds of ${rounds} in which exactly its sessions were lost`, unit: '', p50: clean, goal: goal.least(rounds) });
  }
}

/** Cuts a node off and brings it back. Answers after how many seconds each of its sessions was known as lost, what went wrong,
 * and the sessions that live. */
async function loseNode(fleet, swarm, victim, before) {
  const others = swarm.names.filter((name) => name !== victim);
  const all = [...before];
  for (const nodes of [others, [victim]]) {
    if (!all.some((one) => nodes.includes(one.node))) all.push(await attached(fleet, swarm, nodes));
  }
  const [there, living] = [all.filter((one) => one.node === victim), all.filter((one) => one.node !== victim)];
  const from = now();
  await swarm.plug(victim, 'down');
  const known = await Promise.all(there.map((one) => ended(fleet, one, from)));
  const wrong = known.filter(({ reason }) => reason !== 'node_lost').map(({ reason }) => reason);
  for (const one of living) {
    const record = await fleet.api.ok('GET', `/sessions/${one.session.session_id}`);
    const answer = await one.cdp.evaluate('6 * 7').catch(() => undefined);
    if (record.status !== 'running' || answer !== 42) wrong.push(`${one.node}: ${record.status}, ${record.reason}`);
  }
  await swarm.plug(victim, 'up');
  for (const one of there) one.cdp.close();
  return [known.map(({ after }) => after), wrong, living];
}

/** A session on one of these nodes with a client that stays. */
async function attached(fleet, swarm, nodes) {
  const one = await sessionOn(fleet, swarm, nodes);
  one.cdp = await Cdp.connect(one.session.websocket_url);
  await one.cdp.openPage();
  return one;
}

/** Waits until a session has ended; answers why, and after how many seconds. */
async function ended(fleet, { session }, from) {
  for (;;) {
    const record = await fleet.api.ok('GET', `/sessions/${session.session_id}`);
    const after = (now() - from) / 1000;
    if (record.status !== 'running') return { reason: record.reason, after };
    if (after > 4 * KNOWN_WITHIN) return { reason: 'nothing', after };
    await pause(50);
  }
}
