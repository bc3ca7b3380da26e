// A session's first moments: create, attach, first page, release; beside launching a browser, and beside other services.

import { rotated, summary } from '../stats.mjs';
import { goal } from '../table.mjs';

/** Rounds that only warm everybody's caches. */
const DISCARDED = 2;

const PARTS = [
  ['create', goal.both(5, 25)],
  ['attach', undefined],
  ['page', undefined],
  ['release', undefined],
  ['total', undefined],
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
    for (const [part, wanted] of PARTS) {
      const against = part === 'page' && others.includes('local launch') && { name: 'local launch', ...of('local launch', part) };
      const measure = `${name}: ${part === 'total' ? 'create + attach + first page' : part === 'page' ? 'first page' : part}`;
      if (part !== 'total') {
        table.add({ measure, unit: 'ms', ...of(name, part), goal: wanted, against: against || undefined });
        continue;
      }
      if (others.length === 0) table.add({ measure, unit: 'ms', ...of(name, part) });
      for (const other of others) {
        const aim = other === 'local launch' ? goal.atMost(0.33) : undefined;
        table.add({ measure, unit: 'ms', ...of(name, part), against: { name: other, ...of(other, part) }, goal: aim });
      }
    }
  }
}
