// What a worker costs while it waits: processor time over a while, and memory after it.

import { startBare } from '../bare.mjs';
import { memory, percentOfCore } from '../cgroup.mjs';
import { mainProcess, removeContainer } from '../docker.mjs';
import { pause, summary } from '../stats.mjs';
import { goal } from '../table.mjs';

/** Idle time before anything is measured, in milliseconds. */
const SETTLE = 8000;

export async function idle({ daemon, image, network, quick, table }) {
  await daemon.full();
  const workers = (await daemon.containers()).filter(({ mode }) => mode === 'headless').map(({ id }) => id);
  const bare = [];
  try {
    // One after the other, as the daemon does it.
    for (const worker of workers) bare.push(await startBare(image, network, worker));
    await pause(SETTLE);
    const seconds = quick ? 5 : 20;
    const [waiting, running] = await both(workers, bare, (pids) => percentOfCore(pids, seconds));
    const yardstick = (samples) => ({ name: 'same Chromium, bare container', p50: summary(samples).p50 });
    table.add({
      ...{ measure: `waiting worker, processor over ${seconds} s`, unit: '% of a core', ...summary(waiting) },
      ...{ against: yardstick(running), goal: goal.p50(0.1) },
    });
    const [ours, theirs] = await both(workers, bare, (pids) => Promise.all(pids.map(memory)));
    for (const [what, field, limit] of [['', 'used', 1.15], [', anonymous part', 'anonymous', undefined]]) {
      table.add({
        ...{ measure: `waiting worker, memory${what}`, unit: 'MB', ...summary(ours.map((it) => it[field])) },
        against: yardstick(theirs.map((it) => it[field])),
        goal: limit && goal.atMost(limit),
      });
    }
  } finally {
    for (const id of bare) await removeContainer(id);
  }
}

/** Measures both groups of containers at the same time. */
async function both(workers, bare, measure) {
  const pids = (ids) => Promise.all(ids.map(mainProcess));
  const [ours, theirs] = await Promise.all([pids(workers), pids(bare)]);
  return Promise.all([measure(ours), measure(theirs)]);
}
