// Measures what scripts/bench was asked for and prints one table. Started by scripts/bench, which builds what this needs.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { arch, cpus, loadavg, totalmem } from 'node:os';
import { browserless } from './contenders/browserless.mjs';
import { chromium, local } from './contenders/local.mjs';
import { playwrightServer } from './contenders/playwright.mjs';
import { warmpool } from './contenders/warmpool.mjs';
import { Daemon } from './daemon.mjs';
import { gateway } from './docker.mjs';
import { readOptions } from './options.mjs';
import { ads } from './rows/ads.mjs';
import { burst } from './rows/burst.mjs';
import { calls } from './rows/calls.mjs';
import { consoleRow } from './rows/console.mjs';
import { egress } from './rows/egress.mjs';
import { engines } from './rows/engines.mjs';
import { freezing } from './rows/freezing.mjs';
import { history } from './rows/history.mjs';
import { hundred } from './rows/hundred.mjs';
import { idle } from './rows/idle.mjs';
import { life } from './rows/life.mjs';
import { live } from './rows/live.mjs';
import { logins } from './rows/logins.mjs';
import { mcp } from './rows/mcp.mjs';
import { names } from './rows/names.mjs';
import { paging } from './rows/paging.mjs';
import { relay } from './rows/relay.mjs';
import { sessions } from './rows/sessions.mjs';
import { size } from './rows/size.mjs';
import { sockets } from './rows/sockets.mjs';
import { swarm } from './rows/swarm.mjs';
import { tasks } from './rows/tasks.mjs';
import { thousand } from './rows/thousand.mjs';
import { throughput } from './rows/throughput.mjs';
import { webdriver } from './rows/webdriver.mjs';
import { worlds } from './rows/worlds.mjs';
import { serveSite } from './site.mjs';
import { Table } from './table.mjs';

const RUN = {
  size, idle, sessions, relay, webdriver, engines, life, freezing, paging, ads, egress, logins, names, sockets, live, console: consoleRow, calls, mcp, throughput, burst, tasks, worlds,
  history, hundred, swarm, thousand,
};
/** Rows that start what they measure themselves, in the order in which they run; the first one comes before all others. */
const ALONE = ['size', 'engines', 'life', 'freezing', 'paging', 'burst', 'ads', 'egress', 'logins', 'names', 'history', 'hundred', 'swarm', 'thousand'];
/** Enough for four sessions at once; and two headed ones, so that the older one, which is handed out, sleeps already. */
const POOL = {
  ...{ POOL_CHROMIUM_HEADLESS: 4, POOL_CHROMIUM_HEADED: 2, POOL_MAX_WORKERS: 12 },
  ...{ POOL_FIREFOX_HEADED: 0, POOL_WEBKIT_HEADED: 0 },
};

const image = process.env.BENCH_IMAGE ?? 'warmpool/chromium:latest';
const binary = process.env.BENCH_DAEMON;
/** How long an idle processor of a virtual machine looks for work before it halts, in nanoseconds. */
const HALT_POLL = '/sys/module/haltpoll/parameters/guest_halt_poll_ns';
/** A network that reaches this host, for browsers beside the daemon's. */
const network = 'bridge';
const table = new Table();

/** Those who can be started here; the others are named below the table. */
async function findContenders(daemon, site, peers) {
  const found = [warmpool(daemon, site, true), warmpool(daemon, site, false)];
  if (!chromium) {
    table.note('no local launch and no peers: there is no Chromium on this machine');
    return found;
  }
  found.push(local(site));
  for (const start of peers ? [browserless, playwrightServer] : []) {
    try {
      found.push(await start(site));
    } catch (error) {
      const lines = String(error.message).split('\n');
      table.note(`${start.name} could not be started: ${lines.find((line) => /^\w*Error/.test(line)) ?? lines[0]}`);
    }
  }
  return found;
}

async function measure(options) {
  const step = (row) => (text) => process.stderr.write(`   ${row}: ${text}\n`);
  const run = async (row, context) => {
    step(row)('…');
    try {
      await RUN[row]({ ...options, binary, image, network, table, progress: step(row), ...context });
    } catch (error) {
      process.exitCode = 1;
      table.note(`${row} broke off: ${String(error.message).split('\n')[0]}`);
      process.stderr.write(`${error.stack}\n`);
    }
  };
  const shared = options.rows.filter((row) => !ALONE.includes(row));
  if (options.rows.includes('size')) await run('size');
  if (shared.length > 0) {
    const daemon = await Daemon.start(binary, POOL);
    let site;
    let contenders = [];
    try {
      site = await serveSite(await gateway(network));
      daemon.site = site.url;
      contenders = await findContenders(daemon, site.url, options.peers);
      const peer = contenders.find(({ name }) => name === 'browserless');
      for (const row of shared) await run(row, { daemon, contenders, peer, site: site.url });
    } finally {
      for (const contender of contenders) await contender.stop();
      site?.close();
      await daemon.stop();
    }
  }
  for (const row of ALONE.slice(1)) if (options.rows.includes(row)) await run(row);
}

let options;
try {
  options = readOptions(process.argv.slice(2));
  if (!binary || !existsSync(binary)) throw new Error('BENCH_DAEMON must name the daemon; scripts/bench does');
} catch (error) {
  process.stderr.write(`bench: ${error.message}\n`);
  process.exit(64);
}
const machine = `${cpus().length} cores (${cpus()[0]?.model.trim()}), ${(totalmem() / 1e9).toFixed(0)} GB, Linux ${arch()}`;
const browser = chromium ? execFileSync(chromium, ['--version']).toString().split(' built')[0].trim() : 'no Chromium on this machine';
if (existsSync(HALT_POLL)) table.note(`guest_halt_poll_ns is ${readFileSync(HALT_POLL, 'utf8').trim()}: see the guide on performance`);
table.note(`${machine}, Node ${process.versions.node}, ${browser}; load when it began: ${loadavg()[0].toFixed(1)}`);
await measure(options);
process.stdout.write(`${options.json ? table.json() : options.markdown ? table.markdown() : table.text()}\n`);
process.exit();
