// What a container has used, from its control group: version 1 and version 2.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { now, pause } from './stats.mjs';

/** Where the groups of a controller are mounted, and the version. */
async function mount(controller) {
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' '));
  const one = mounts.find(([, , type, options]) => type === 'cgroup' && options?.split(',').includes(controller));
  if (one) return { version: 1, at: one[1] };
  const two = mounts.find(([, , type]) => type === 'cgroup2');
  if (two) return { version: 2, at: two[1] };
  throw new Error('no control groups are mounted');
}

/** The folder of a process's group for a controller. */
async function folder(pid, controller) {
  const { version, at } = await mount(controller);
  const lines = (await readFile(`/proc/${pid}/cgroup`, 'utf8')).split('\n').map((line) => line.split(':'));
  const line = lines.find(([number, names]) => (version === 2 ? number === '0' : names.split(',').includes(controller)));
  return { version, at: join(at, line.slice(2).join(':')) };
}

const number = async (...path) => Number((await readFile(join(...path), 'utf8')).trim());

async function stat(...path) {
  const text = await readFile(join(...path), 'utf8');
  return Object.fromEntries(text.trim().split('\n').map((line) => line.split(' ')).map(([name, value]) => [name, Number(value)]));
}

/** Processor time used so far by the group of `pid`, in seconds. */
export async function cpuSeconds(pid) {
  const { version, at } = await folder(pid, 'cpuacct');
  if (version === 1) return (await number(at, 'cpuacct.usage')) / 1e9;
  return (await stat(at, 'cpu.stat')).usage_usec / 1e6;
}

/** What the groups of `pids` use of a core over some seconds, in percent. */
export async function percentOfCore(pids, seconds) {
  const look = () => Promise.all(pids.map(cpuSeconds));
  const [from, before] = [now(), await look()];
  await pause(seconds * 1000);
  const [after, to] = [await look(), now()];
  return after.map((used, at) => ((used - before[at]) / ((to - from) / 1000)) * 100);
}

/** Reads what the group of `pid` has used so far: processor time in seconds, and the most memory that it ever had, in MB
 * (10^6 bytes). The group is looked up once, since a process that ends leaves it. */
export async function meter(pid) {
  const [cpu, memory] = await Promise.all([folder(pid, 'cpuacct'), folder(pid, 'memory')]);
  const seconds = async () =>
    cpu.version === 1 ? (await number(cpu.at, 'cpuacct.usage')) / 1e9 : (await stat(cpu.at, 'cpu.stat')).usage_usec / 1e6;
  const peak = memory.version === 1 ? 'memory.max_usage_in_bytes' : 'memory.peak';
  return async () => ({ cpu: await seconds(), memory: (await number(memory.at, peak)) / 1e6 });
}

/** Memory of the group of `pid`, in MB (10^6 bytes): `used` without the file pages that may go at once, and what of it is anonymous;
 * and what is in `swap`. */
export async function memory(pid) {
  const { version, at } = await folder(pid, 'memory');
  const told = await stat(at, 'memory.stat');
  if (version === 1) {
    const all = await number(at, 'memory.usage_in_bytes');
    return { used: (all - told.total_inactive_file) / 1e6, anonymous: told.total_rss / 1e6, swap: (told.total_swap ?? 0) / 1e6 };
  }
  const swap = await number(at, 'memory.swap.current').catch(() => 0);
  const used = (await number(at, 'memory.current')) - told.inactive_file;
  return { used: used / 1e6, anonymous: told.anon / 1e6, swap: swap / 1e6 };
}
