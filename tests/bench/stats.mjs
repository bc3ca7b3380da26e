// Order statistics, and clocks to feed them.

/** The value that `share` (0 to 1) of the samples do not exceed, by the nearest rank. */
export function quantile(samples, share) {
  if (samples.length === 0) return undefined;
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

/** The median, and the value that 99 % do not exceed (of fewer than a hundred samples: the worst). */
export function summary(samples) {
  return { p50: quantile(samples, 0.5), p99: quantile(samples, 0.99), n: samples.length };
}

/** Milliseconds since some moment, with fractions. */
export const now = () => performance.now();

/** Milliseconds that `work` took, and what it gave. */
export async function timed(work) {
  const from = now();
  const value = await work();
  return [now() - from, value];
}

export const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));

/** Polls `probe` until it answers something true. */
export async function until(what, seconds, probe, every = 25) {
  const deadline = now() + seconds * 1000;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (now() > deadline) throw new Error(`gave up waiting for ${what}`);
    await pause(every);
  }
}

/** Gives every round's contestants in another order, so that none always comes after the same one. */
export function rotated(list, round) {
  const at = round % list.length;
  return [...list.slice(at), ...list.slice(0, at)];
}
