// Tasks: what a one-step run costs beside a client that does the same, and a fleet beside puppeteer-cluster.

import puppeteer from 'puppeteer-core';
import { Cluster } from 'puppeteer-cluster';
import { chromium, sandboxArgs } from '../contenders/local.mjs';
import { summary, timed } from '../stats.mjs';
import { goal } from '../table.mjs';

const ITEMS = 100;
const QUICK_ITEMS = 10;

const w3c = async (method, url, body) => {
  const headers = { 'content-type': 'application/json' };
  const reply = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
  const { value } = await reply.json();
  if (!reply.ok) throw new Error(`${method} ${url}: ${value.error}: ${value.message}`);
  return value;
};

/** The same by a WebDriver client: take a session, open the page, quit. */
async function byClient(daemon, page) {
  const session = await daemon.create({ headless: true, url: 'about:blank' }, 'webdriver/');
  const base = session.connect_url.replace(/\/$/, '');
  const { sessionId } = await w3c('POST', `${base}/session`, { capabilities: {} });
  await w3c('POST', `${base}/session/${sessionId}/url`, { url: page });
  await w3c('DELETE', `${base}/session/${sessionId}`);
}

/** The step alone, by a client that has its session and its driver already. */
async function onWarmSession(daemon, page) {
  const session = await daemon.create({ headless: true, url: 'about:blank' }, 'webdriver/');
  const base = session.connect_url.replace(/\/$/, '');
  const { sessionId } = await w3c('POST', `${base}/session`, { capabilities: {} });
  const [took] = await timed(() => w3c('POST', `${base}/session/${sessionId}/url`, { url: page }));
  await w3c('DELETE', `${base}/session/${sessionId}`);
  return took;
}

async function byTask(daemon, page) {
  const body = { steps: [{ type: 'navigate', url: page }], wait: 60 };
  const task = await daemon.api.ok('POST', '/lam/run', body);
  if (task.status !== 'success') throw new Error(`the run ended as ${task.status}: ${JSON.stringify(task.error)}`);
}

async function byCluster(pages, workers) {
  const cluster = await Cluster.launch({
    puppeteer,
    concurrency: Cluster.CONCURRENCY_CONTEXT,
    maxConcurrency: workers,
    puppeteerOptions: { executablePath: chromium, headless: true, args: sandboxArgs },
  });
  let read = 0;
  cluster.on('taskerror', (error) => {
    throw error;
  });
  await cluster.task(async ({ page, data }) => {
    await page.goto(data);
    if (await page.$eval('h1', (heading) => heading.textContent)) read += 1;
  });
  for (const page of pages) cluster.queue(page);
  await cluster.idle();
  await cluster.close();
  if (read !== pages.length) throw new Error(`puppeteer-cluster read ${read} of ${pages.length} pages`);
}

export async function tasks({ daemon, site, rounds, quick, table, progress }) {
  const ways = { client: byClient, task: byTask };
  const times = { client: [], task: [], step: [] };
  for (let round = -2; round < rounds; round += 1) {
    for (const name of round % 2 === 0 ? ['client', 'task'] : ['task', 'client']) {
      await daemon.full();
      const [took] = await timed(() => ways[name](daemon, site));
      if (round >= 0) times[name].push(took);
    }
    await daemon.full();
    const step = await onWarmSession(daemon, site);
    if (round >= 0) times.step.push(step);
    progress(`round ${round + 1} of ${rounds}`);
  }
  const [client, task, step] = [summary(times.client), summary(times.task), summary(times.step)];
  table.add({ measure: 'one-step run, from order to result', unit: 'ms', ...task, against: { name: 'a WebDriver client', p50: client.p50 } });
  table.add({ measure: 'overhead of a one-step run', unit: 'ms', p50: task.p50 - client.p50, goal: goal.below(50) });
  table.add({
    measure: 'overhead of a one-step run over its step on a session at hand',
    unit: 'ms',
    p50: task.p50 - step.p50,
    goal: goal.below(50),
  });

  const pages = Array.from({ length: quick ? QUICK_ITEMS : ITEMS }, () => site);
  const { tasks: limits } = await daemon.api.ok('GET', '/status');
  await daemon.full();
  progress(`a fleet of ${pages.length}`);
  const body = { extract: { url: '{{input.url}}', schema: { title: 'h1' } }, urls: pages, wait: 600 };
  const [fleet, done] = await timed(() => daemon.api.ok('POST', '/lam/fleet', body));
  if (done.status !== 'success') throw new Error(`the fleet ended as ${done.status}: ${JSON.stringify(done.error)}`);
  const busy = done.output.reduce((sum, item) => sum + item.executionTime, 0) / (done.executionTime * limits.workers);
  const rate = (ms) => (pages.length / ms) * 60_000;
  table.add({ measure: `fleet, workers busy`, unit: '%', p50: busy * 100 });
  if (!chromium) {
    table.add({ measure: `fleet of ${pages.length} extracts, ${limits.workers} workers`, unit: '1/min', p50: rate(fleet) });
    return;
  }
  await daemon.full();
  progress('puppeteer-cluster');
  const [cluster] = await timed(() => byCluster(pages, limits.workers));
  table.add({
    measure: `fleet of ${pages.length} extracts, ${limits.workers} workers`,
    unit: '1/min',
    p50: rate(fleet),
    against: { name: 'puppeteer-cluster, one local Chromium', p50: rate(cluster) },
  });
  table.note('fleet: each item has a browser context of its own, in one container a worker; puppeteer-cluster gives each a context of one browser');
}
