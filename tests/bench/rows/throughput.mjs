// Whole sessions a minute: create, attach, one page, release, again and again.

import { now, rotated } from '../stats.mjs';

export async function throughput({ daemon, contenders, quick, table, progress }) {
  const seconds = quick ? 8 : 30;
  const runners = contenders.filter(({ name }) => name !== 'warmpool headed');
  for (const [round, at_once] of [1, 4].entries()) {
    const rates = new Map();
    for (const contender of rotated(runners, round)) {
      await daemon.full(120);
      rates.set(contender.name, await perMinute(contender, at_once, seconds));
      progress(`${contender.name}, ${at_once} at once: ${rates.get(contender.name).toFixed(0)} a minute`);
    }
    const [ours, ...others] = runners.map(({ name }) => name);
    const line = { measure: `${ours}: sessions a minute, ${at_once} at once`, unit: '1/min', p50: rates.get(ours) };
    if (others.length === 0) table.add(line);
    for (const name of others) table.add({ ...line, against: { name, p50: rates.get(name) } });
  }
}

async function perMinute(contender, atOnce, seconds) {
  const from = now();
  const until = from + seconds * 1000;
  let done = 0;
  const loop = async () => {
    while (now() < until) {
      await contender.visit();
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, loop));
  return (done / (now() - from)) * 60_000;
}
