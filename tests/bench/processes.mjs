// Processes of this machine, as /proc has them.

import { readFile, readdir } from 'node:fs/promises';
import { now, pause } from './stats.mjs';

/** Ticks of the kernel's clock in a second, and bytes of a page: the same on all machines that Warmpool runs on. */
const TICKS = 100;
const PAGE = 4096;

/** What /proc/PID/stat says, field by field, from the state on. */
function statFields(text) {
  // The name, in brackets, may have spaces and brackets of its own.
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

/** What /proc/PID/stat says: processor time so far in seconds, and resident memory in MB (10^6 bytes). */
export function readStat(text) {
  const fields = statFields(text);
  return { cpu: (Number(fields[11]) + Number(fields[12])) / TICKS, rss: (Number(fields[21]) * PAGE) / 1e6 };
}

/** What /proc/PID/stat says of a process's family: its state, its parent, and the processor time in seconds that those of its
 * children took that have ended. */
export function readFamily(text) {
  const fields = statFields(text);
  return { state: fields[0], parent: Number(fields[1]), children: (Number(fields[13]) + Number(fields[14])) / TICKS };
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

const statOf = (pid) => readFile(`/proc/${pid}/stat`, 'utf8').catch(ended);

/** The state, the parent and the ended children of a process; nothing once it has ended. */
export async function family(pid) {
  const text = await statOf(pid);
  return text ? readFamily(text) : undefined;
}

/** Processor time that a process has used so far, in seconds: `own`, and that of its children that have ended. Nothing once it
 * has ended itself. The kernel counts a process in ticks, but its threads in nanoseconds; threads that have ended are in the
 * first figure alone. */
export async function spent(pid) {
  const text = await statOf(pid);
  if (!text) return undefined;
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  const times = await Promise.all(threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').catch(ended)));
  const precise = times.reduce((sum, time) => sum + Number(time.split(' ')[0]) / 1e9, 0);
  return { own: Math.max(readStat(text).cpu, precise), children: readFamily(text).children };
}

/** Processor time in seconds that each of `pids`, {name: pid}, takes while `work` runs. */
export async function timeSpent(pids, work) {
  const look = () => Promise.all(Object.values(pids).map(spent));
  const before = await look();
  await work();
  const after = await look();
  return Object.fromEntries(Object.keys(pids).map((name, at) => [name, after[at].own - before[at].own]));
}

/** What some processes have used so far, added up. One that has ended counts nothing. */
export async function usage(pids) {
  const texts = await Promise.all(pids.map(statOf));
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
