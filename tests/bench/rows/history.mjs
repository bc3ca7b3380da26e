// A page of the history: from a thousand tasks and from a million, for every filter, order and depth.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Daemon } from '../daemon.mjs';
import { BEGAN, EVERY, addTasks } from '../history.mjs';
import { summary, timed } from '../stats.mjs';

const SMALL = 1_000;
const LARGE = 1_000_000;
const QUICK_LARGE = 20_000;
/** No browsers: what is measured reads only. */
const NO_POOL = { POOL_CHROMIUM_HEADLESS: 0, POOL_CHROMIUM_HEADED: 0, POOL_MAX_WORKERS: 2, TASKS_KEEP_FOR: '3650d', TASKS_KEEP: 2_000_000 };
const SORTS = ['timestamp', 'executionTime', 'taskId', 'status', 'executionType'];
const ORDERS = ['ascend', 'descend'];
const DEPTHS = [0, 0.5, 1];

/** Filters by name; each gets the moments between which the middle four fifths of the history lie. */
const FILTERS = {
  none: () => '',
  type: () => '&executionType[]=run',
  types: () => '&executionType[]=run&executionType[]=fleet',
  passcode: () => '&service_passcode=user-1',
  time: (from, to) => `&start_time=${from}&end_time=${to}`,
  'type, passcode and time': (from, to) => `&executionType[]=run&service_passcode=user-1&start_time=${from}&end_time=${to}`,
};

/** A daemon with this many tasks in its history, and how long its start took. */
async function daemonWith(binary, count, folder, progress) {
  const data = join(folder, String(count));
  const empty = await Daemon.start(binary, NO_POOL, data);
  const [backup, full] = [join(folder, 'empty.jsonl'), join(folder, `${count}.jsonl`)];
  await empty.command(['backup', backup]);
  const owner = JSON.parse(await empty.command(['key', 'list', '--json']))[0].id;
  await empty.stop();
  progress(`writing ${count} tasks`);
  await addTasks(backup, full, count, owner);
  await empty.command(['restore', full]);
  await rm(full);
  const [started, daemon] = await timed(() => Daemon.start(binary, NO_POOL, data));
  return { daemon, started, total: count };
}

/** The variants of one sort key and filter for a history: every order and depth. */
async function variants({ daemon, total }, sort, filter, limit) {
  const [from, to] = [BEGAN + Math.floor(total * 0.1) * EVERY, BEGAN + Math.floor(total * 0.9) * EVERY];
  const query = `sort_by=${sort}&limit=${limit}${FILTERS[filter](from, to)}`;
  const { meta } = await daemon.api.ok('GET', `/lam/tasks?${query}`);
  return ORDERS.flatMap((order) =>
    DEPTHS.map((depth) => {
      // Full pages only, or their sizes would be compared.
      const page = Math.max(1, Math.round(Math.floor(meta.totalRecords / limit) * depth));
      return `/lam/tasks?${query}&sort_order=${order}&page=${page}`;
    }),
  );
}

export async function history({ binary, rounds, quick, table, progress }) {
  const large = quick ? QUICK_LARGE : LARGE;
  const folder = await mkdtemp(join(tmpdir(), 'warmpool-history-'));
  const sides = [];
  try {
    for (const size of [SMALL, large]) sides.push(await daemonWith(binary, size, folder, progress));
    for (const { daemon, started, total } of sides) {
      const { rss } = await daemon.memory();
      table.add({ measure: `daemon, start with ${total} tasks`, unit: 'ms', p50: started });
      table.add({ measure: `daemon, resident, with ${total} tasks`, unit: 'MB', p50: rss });
    }
    for (const limit of [10, 100]) {
      for (const sort of SORTS) {
        for (const filter of Object.keys(FILTERS)) {
          progress(`${limit} by ${sort}, filter: ${filter}`);
          const paths = await Promise.all(sides.map((side) => variants(side, sort, filter, limit)));
          const worst = { ratio: 0 };
          for (let at = 0; at < paths[0].length; at += 1) {
            const times = [[], []];
            for (let round = -3; round < rounds; round += 1) {
              for (const side of round % 2 === 0 ? [0, 1] : [1, 0]) {
                const [took] = await timed(() => sides[side].daemon.api.ok('GET', paths[side][at]));
                if (round >= 0) times[side].push(took);
              }
            }
            const [few, many] = times.map(summary);
            if (many.p50 / few.p50 > worst.ratio) Object.assign(worst, { ratio: many.p50 / few.p50, few, many });
          }
          table.add({
            measure: `a page of ${limit} of ${large} tasks by ${sort}, filter: ${filter}`,
            unit: 'ms',
            ...worst.many,
            against: { name: `of ${SMALL}`, p50: worst.few.p50 },
            goal: { text: 'ratio ≤ 2, p50 < 5', holds: ({ p50, ratio }) => ratio <= 2 && p50 < 5 },
          });
        }
      }
    }
    table.note('history: each line is the worst of both orders and of the first, middle and last page');
  } finally {
    for (const { daemon } of sides) await daemon.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
