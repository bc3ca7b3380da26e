// A session's first moments: create, attach, first page, release; beside launching a browser, and beside other services.

import { rotated, summary } from '../stats.mjs';
import { goal } from '../table.mjs';

/** Rounds that only warm everybody's caches. */
const DISCARDED = 2;
const LOCAL = 'local launch';

const PARTS = [
  ['create', 'create', goal.both(5, 25)],
  ['attach', 'attach'],
  ['open', 'open a page'],
  ['load', 'load it, read its title'],
  ['release', 'release'],
];

export async function sessions({ daemon, contenders, rounds, table, progress }) {
  const times = new Map(contenders.map(({ name }) => [name, []]));
  for (let round = -DISCARDED; round < rounds; round += 1) {
    for (const contender of rotated(contenders, round + DISCARDED)) {
      // A warm worker is what is measured, and nobody's work in the background is to weigh on somebody else.
      await daemon.full();
      const visited = await contender.visit();
      if (round >= 0) times.get(contender.name).push(visited);
    }
    if (round >= 0) progress(`round ${round + 1} of ${rounds}`);
  }
  const of = (name, part) => summary(times.get(name).map((visited) => visited[part]));
  const [headless, headed, ...others] = contenders.map(({ name }) => name);
  for (const name of [headless, headed]) {
    for (const [part, measure, wanted] of PARTS) {
      const shared = ['open', 'load'].includes(part) && others.includes(LOCAL);
      const against = shared ? { name: LOCAL, ...of(LOCAL, part) } : undefined;
      table.add({ measure: `${name}: ${measure}`, unit: 'ms', ...of(name, part), goal: wanted, against });
    }
    const total = { measure: `${name}: create to first page loaded`, unit: 'ms', ...of(name, 'total') };
    if (others.length === 0) table.add(total);
    for (const other of others) {
      const aim = other === LOCAL ? goal.atMost(0.33) : undefined;
      table.add({ ...total, against: { name: other, ...of(other, 'total') }, goal: aim });
    }
  }
}
