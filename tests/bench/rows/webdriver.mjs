// WebDriver through Warmpool, and beside the driver.

import { mainProcess } from '../docker.mjs';
import { rotated, summary } from '../stats.mjs';
import { goal } from '../table.mjs';
import { Probe, withTwoProbes } from '../probes.mjs';
import { alternate } from './relay.mjs';

/** Where the driver listens in its container, and the browser. */
const DRIVER = 'http://127.0.0.1:9515/';
const BROWSER = '127.0.0.1:9222';
const BLOCK = 20;
const HEADLESS = { headless: true };

export async function webdriver({ daemon, rounds, quick, table, progress }) {
  await newSessions({ daemon, rounds: Math.min(rounds, 15), table, progress });
  await commands({ daemon, count: quick ? 60 : 400, table });
}

/** As a client meets it, right behind create; and, when all is quiet, beside another fresh worker whose driver is asked directly. */
async function newSessions({ daemon, rounds, table, progress }) {
  const [fresh, quiet, direct] = [[], [], []];
  const client = Probe.start();
  const ask = async (probe, url, capabilities) => (await probe.ask('newSession', { url, capabilities })).ms;
  try {
    for (let round = -1; round < rounds; round += 1) {
      await daemon.full();
      const first = await daemon.create(HEADLESS, 'webdriver/');
      const ms = await ask(client, first.connect_url, {});
      await daemon.end(first);
      await daemon.full();
      const pair = [await daemon.create(HEADLESS, 'webdriver/'), await daemon.create(HEADLESS, 'webdriver/')];
      await daemon.full();
      const inside = Probe.start(await mainProcess((await daemon.container(pair[1])).id));
      const turns = [
        async () => quiet.push(await ask(client, pair[0].connect_url, {})),
        async () => direct.push(await ask(inside, DRIVER, { 'goog:chromeOptions': { debuggerAddress: BROWSER } })),
      ];
      for (const turn of rotated(turns, round + 1)) await turn();
      inside.stop();
      for (const session of pair) await daemon.end(session);
      if (round >= 0) fresh.push(ms);
      else for (const discarded of [quiet, direct]) discarded.length = 0;
      if (round >= 0) progress(`new session ${round + 1} of ${rounds}`);
    }
  } finally {
    client.stop();
  }
  const against = { name: 'beside the driver', ...summary(direct) };
  table.add({ measure: 'WebDriver: new session right after create', unit: 'ms', ...summary(fresh), goal: goal.p50(60) });
  table.add({ measure: 'WebDriver: new session on a worker awake', unit: 'ms', ...summary(quiet), against });
}

/** One driver session, asked from both sides. */
async function commands({ daemon, count, table }) {
  await daemon.full();
  const session = await daemon.create(HEADLESS, 'webdriver/');
  await daemon.full();
  const pid = await mainProcess((await daemon.container(session)).id);
  await withTwoProbes(pid, async (through, direct) => {
    const { id } = await through.ask('newSession', { url: session.connect_url, capabilities: {} });
    const ask = (probe) => (size) =>
      probe.ask('commands', { url: probe === direct ? DRIVER : session.connect_url, id, count: size });
    for (const probe of [through, direct]) await ask(probe)(20);
    const [ours, theirs] = await alternate([through, direct], count / BLOCK, (probe) => ask(probe)(BLOCK));
    table.add({
      ...{ measure: 'WebDriver: execute/sync', unit: 'ms', ...summary(ours) },
      ...{ against: { name: 'beside the driver', ...summary(theirs) }, goal: goal.atMost(1.15) },
    });
  });
  await daemon.end(session);
}
