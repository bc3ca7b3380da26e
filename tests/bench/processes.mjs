// Processes of this machine, as /proc has them.

import { readFile, readdir } from 'node:fs/promises';
import { now, pause } from './stats.mjs';

/** Ticks of the kernel's clock in a second, and bytes of a page: the same on all machines that Warmpool runs on. */
const TICKS = 100;
const PAGE = 4096;

/** What /proc/PID/stat says: processor time so far in seconds, and resident memory in MB (10^6 bytes). */
export function readStat(text) {
  // The name, in brackets, may have spaces and brackets of its own.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { cpu: (Number(fields[11]) + Number(fields[12])) / TICKS, rss: (Number(fields[21]) * PAGE) / 1e6 };
}

/** What /proc/meminfo says of memory that programs could still get, in MB (10^6 bytes). */
export const readAvailable = (text) => (Number(/^MemAvailable:\s+(\d+) kB/m.exec(text)?.[1]) * 1024) / 1e6;

/** Processes whose command line `wanted` accepts: {pid, words}. */
export async function findProcesses(wanted) {
  const numbers = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = [];
  for (const pid of numbers) {
    const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(ended)).split('\0').filter(Boolean);
    if (words.length > 0 && wanted(words)) found.push({ pid: Number(pid), words });
  }
  return found;
}

/** What can be read of a process that ended meanwhile: nothing. */
function ended(error) {
  if (!['ENOENT', 'ESRCH'].includes(error.code)) throw error;
  return '';
}

/** What some processes have used so far, added up. One that has ended counts nothing. */
export async function usage(pids) {
  const texts = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'utf8').catch(ended)));
  const all = texts.filter(Boolean).map(readStat);
  return all.reduce((sum, { cpu, rss }) => ({ cpu: sum.cpu + cpu, rss: sum.rss + rss }), { cpu: 0, rss: 0 });
}

/** What groups of processes, {name: pids}, use over some seconds: {name: {percent of a core, rss}}. */
export async function watchUsage(groups, seconds) {
  const look = async () => Object.fromEntries(await Promise.all(Object.entries(groups).map(async ([name, pids]) => [name, await usage(pids)])));
  const [from, before] = [now(), await look()];
  await pause(seconds * 1000);
  const [after, to] = [await look(), now()];
  const percent = (name) => ((after[name].cpu - before[name].cpu) / ((to - from) / 1000)) * 100;
  return Object.fromEntries(Object.keys(groups).map((name) => [name, { percent: percent(name), rss: after[name].rss }]));
}

export const available = async () => readAvailable(await readFile('/proc/meminfo', 'utf8'));
