// WebDriver through Warmpool, and beside the driver.

import { mainProcess } from '../docker.mjs';
import { summary } from '../stats.mjs';
import { goal } from '../table.mjs';
import { twins } from '../twin.mjs';
import { alternate } from './relay.mjs';

/** Where the driver listens in its container, and the browser. */
const DRIVER = 'http://127.0.0.1:9515/';
const BROWSER = '127.0.0.1:9222';
const BLOCK = 20;

export async function webdriver({ daemon, rounds, quick, table, progress }) {
  await newSessions({ daemon, rounds: Math.min(rounds, 20), table, progress });
  await commands({ daemon, count: quick ? 60 : 400, table });
}

/** Two fresh workers a round: one gets its session through Warmpool, one beside its driver. */
async function newSessions({ daemon, rounds, table, progress }) {
  const [ours, theirs] = [[], []];
  for (let round = -1; round < rounds; round += 1) {
    await daemon.full();
    const pair = [await daemon.create({ headless: true }, 'webdriver/'), await daemon.create({ headless: true }, 'webdriver/')];
    const pid = await mainProcess((await daemon.container(pair[1])).id);
    await twins(pid, async (through, direct) => {
      const first = async () => (await through.ask('newSession', { url: pair[0].connect_url, capabilities: {} })).ms;
      const attach = { 'goog:chromeOptions': { debuggerAddress: BROWSER } };
      const second = async () => (await direct.ask('newSession', { url: DRIVER, capabilities: attach })).ms;
      const times = round % 2 === 0 ? [await first(), await second()] : [await second(), await first()].reverse();
      if (round < 0) return;
      ours.push(times[0]);
      theirs.push(times[1]);
    });
    for (const session of pair) await daemon.end(session);
    if (round >= 0) progress(`new session ${round + 1} of ${rounds}`);
  }
  table.add({
    ...{ measure: 'WebDriver: new session', unit: 'ms', ...summary(ours) },
    ...{ against: { name: 'beside the driver', ...summary(theirs) }, goal: goal.p50(60) },
  });
}

/** One driver session, asked from both sides. */
async function commands({ daemon, count, table }) {
  await daemon.full();
  const session = await daemon.create({ headless: true }, 'webdriver/');
  const pid = await mainProcess((await daemon.container(session)).id);
  await twins(pid, async (through, direct) => {
    const { id } = await through.ask('newSession', { url: session.connect_url, capabilities: {} });
    const ask = (twin) => (size) =>
      twin.ask('commands', { url: twin === direct ? DRIVER : session.connect_url, id, count: size });
    for (const twin of [through, direct]) await ask(twin)(20);
    const [ours, theirs] = await alternate([through, direct], count / BLOCK, (twin) => ask(twin)(BLOCK));
    table.add({
      ...{ measure: 'WebDriver: execute/sync', unit: 'ms', ...summary(ours) },
      ...{ against: { name: 'beside the driver', ...summary(theirs) }, goal: goal.atMost(1.3) },
    });
  });
  await daemon.end(session);
}
