// A worker's whole life, and who spends processor time in each part of it: one worker at a time, nothing beside it.

import { Api } from '../api.mjs';
import { meter } from '../cgroup.mjs';
import { Daemon } from '../daemon.mjs';
import { docker, gateway, mainProcess } from '../docker.mjs';
import { family, findProcesses, spent } from '../processes.mjs';
import { serveSite } from '../site.mjs';
import { now, pause, summary, until } from '../stats.mjs';

const KINDS = ['chromium_headless', 'chromium_headed', 'firefox_headed', 'webkit_headed'];
/** Nothing is started in a worker's place while it lives. */
const NO_REFILL = '1h';
/** Time after which a worker that is ready sleeps for certain, and after which an engine has tidied up, in milliseconds. */
const SETTLED = 3000;
const PARTS = ['start', 'create and first page', 'removal'];
const SPENDERS = ['worker', 'dockerd', 'containerd', 'shim', 'daemon'];

export async function life({ binary, network, rounds, quick, table, progress }) {
  const site = await serveSite(await gateway(network));
  try {
    for (const kind of KINDS) {
      const [engine, mode] = kind.split('_');
      if (!(await docker('image', 'inspect', `warmpool/${engine}:latest`).catch(() => ''))) {
        table.note(`${engine} was not measured: there is no image of it`);
        continue;
      }
      const lives = [];
      for (let round = -1; round < (quick ? 1 : Math.min(rounds, 7)); round += 1) {
        const lived = await live(binary, kind, engine, mode, site.url);
        if (round >= 0) lives.push(lived);
        progress(`${engine} ${mode}: ${round + 1}`);
      }
      report(table, `${engine} ${mode}`, lives);
    }
  } finally {
    site.close();
  }
}

/** One life: {part: {spender: seconds, wall: milliseconds}}. */
async function live(binary, kind, engine, mode, page) {
  const empty = { POOL_CHROMIUM_HEADLESS: 0, POOL_CHROMIUM_HEADED: 0, POOL_FIREFOX_HEADED: 0, POOL_WEBKIT_HEADED: 0 };
  const engines = await engineProcesses();
  const before = await Promise.all(engines.map(({ pid }) => spent(pid)));
  const from = now();
  const settings = { ...empty, [`POOL_${kind.toUpperCase()}`]: 1, POOL_REFILL_DELAY: NO_REFILL };
  const daemon = await Daemon.start(binary, settings);
  try {
    const started = now() - from;
    await pause(SETTLED);
    const [container] = await daemon.containers();
    const pid = await mainProcess(container.id);
    const processes = [...engines, { name: 'shim', pid: (await family(pid)).parent }, { name: 'daemon', pid: daemon.pid }];
    const read = await meter(pid);
    const look = async () => ({ worker: (await read()).cpu, ...(await times(processes)) });
    const ready = await look();
    const start = Object.fromEntries(engines.map(({ name }, at) => [name, ready[name] - total(before[at])]));
    const at = now();
    const session = await daemon.create({ browser_type: engine, headless: mode === 'headless' }, 'webdriver/');
    await firstPage(session.connect_url, page);
    const shown = now() - at;
    const used = await look();
    const [ends, alive] = [now(), await times(processes)];
    await daemon.end(session);
    await until('the worker to be gone', 20, async () => (await daemon.containers()).length === 0);
    const removed = now() - ends;
    await pause(SETTLED);
    const rest = await times(processes.filter(({ name }) => name !== 'shim'));
    return {
      start: { ...ready, ...start, wall: started },
      'create and first page': { ...less(used, ready), wall: shown },
      removal: { ...less(rest, alive), wall: removed },
    };
  } finally {
    await daemon.stop();
  }
}

/** The container engine's two programs, by which it is known where the machine has them. */
async function engineProcesses() {
  const found = [];
  for (const name of ['dockerd', 'containerd']) {
    const [one] = await findProcesses(([program]) => program.split('/').pop() === name);
    if (one) found.push({ name, pid: one.pid });
  }
  return found;
}

/** What a process and those of its children that have ended took, in seconds. */
const total = (times) => (times ? times.own + times.children : 0);

async function times(processes) {
  return Object.fromEntries(await Promise.all(processes.map(async ({ name, pid }) => [name, total(await spent(pid))])));
}

const less = (after, before) => Object.fromEntries(Object.keys(after).map((name) => [name, after[name] - before[name]]));

async function firstPage(connect_url, url) {
  const driver = new Api(connect_url.replace(/\/?$/, '/'));
  const { value } = await driver.ok('POST', 'session', { capabilities: {} });
  await driver.ok('POST', `session/${value.sessionId}/url`, { url });
  driver.close();
}

function report(table, kind, lives) {
  for (const part of PARTS) {
    const line = (what, figures) => table.add({ measure: `${kind}: ${part}: ${what}`, unit: 'ms', ...summary(figures) });
    line('wall time', lives.map((lived) => lived[part].wall));
    for (const spender of SPENDERS) {
      const figures = lives.map((lived) => lived[part][spender]).filter((seconds) => seconds !== undefined);
      if (figures.length > 0) line(`processor time of ${NAMES[spender]}`, figures.map((seconds) => seconds * 1000));
    }
  }
}

const NAMES = { worker: 'the worker', dockerd: 'dockerd', containerd: 'containerd and runc', shim: 'its shim', daemon: 'the daemon' };
