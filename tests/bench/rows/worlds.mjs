// Worlds: how soon a request is answered, how soon its pictures are there, and what rendering costs everybody else.

import { readFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { meter } from '../cgroup.mjs';
import { docker, mainProcess } from '../docker.mjs';
import { now, pause, summary, timed, until } from '../stats.mjs';
import { goal } from '../table.mjs';

/** Pictures of a usual size, which are there anyway. */
const PICTURES = ['world-garden.jpg', 'world-home.jpg', 'world-porch.jpg'];
const LABELS = ['radio', 'teapot', 'clock', 'hat'];
const PATH = '/v1/world/generate';
/** Seconds for one scene. */
const LONGEST = 3600;

/** Seconds of processor time that this machine did not idle, since it started. */
async function busySeconds() {
  const [, ...ticks] = (await readFile('/proc/stat', 'utf8')).split('\n', 1)[0].split(/\s+/).map(Number);
  const [user, nice, system, , , irq, softirq, steal] = ticks;
  return (user + nice + system + irq + softirq + steal) / 100;
}

/** Follows a renderer from its first moment: what its container has used. */
async function watchRenderer(daemon) {
  const labels = [`warmpool.instance=${daemon.instance}`, 'warmpool.renderer'].flatMap((label) => ['--filter', `label=${label}`]);
  const id = await until('a renderer', 60, () => docker('ps', '--no-trunc', '--quiet', ...labels), 100);
  const read = await meter(await mainProcess(id));
  const used = { cpu: 0, memory: 0, over: false };
  const watching = (async () => {
    while (!used.over) {
      try {
        Object.assign(used, await read());
      } catch {
        // The container has gone, and what it had used by then stands.
        return;
      }
      await pause(250);
    }
  })();
  return { used, stop: async () => ((used.over = true), watching) };
}

export async function worlds({ daemon, contenders, rounds, quick, table, progress }) {
  const key = (await daemon.command(['integration-key', 'create', ...(quick ? ['--test'] : []), 'bench'])).trim();
  const folder = new URL('../../../orchestrator/docs/', import.meta.url);
  const data = await Promise.all(PICTURES.map((name) => readFile(new URL(name, folder), 'base64')));
  const images = data.map((data, at) => ({ data, label: `Picture ${at + 1}` }));
  const belongings = LABELS.map((label) => ({ label }));
  const who = { api_key: key, patient_id: 'bench', patient_name: 'Bench', environment_type: 'garden' };
  const ask = (variation) => daemon.api.ok('POST', PATH, { ...who, images, belongings, variation });

  const [warm] = contenders;
  const visit = async () => {
    const totals = [];
    for (let round = -1; round < rounds; round += 1) {
      await daemon.full(300);
      const { total } = await warm.visit();
      if (round >= 0) totals.push(total);
    }
    return summary(totals);
  };
  progress('sessions without a renderer');
  const alone = await visit();

  progress('a world');
  const [begun, busy] = [now(), await busySeconds()];
  const { world_id: id } = await ask(0);
  const renderer = await watchRenderer(daemon);
  const times = {};
  const rendered = until('the world', LONGEST, async () => {
    const { status, assets } = await daemon.api.ok('GET', `/v1/worlds/${id}`);
    if (assets.preview_url) times.preview ??= (now() - begun) / 1000;
    if (status === 'failed') throw new Error('the world could not be made');
    return status === 'ready';
  }, 250);
  rendered.catch(() => {});

  // All of these are asked while the first one is being rendered, as a ward would.
  const accepted = [];
  for (let round = -2; round < rounds; round += 1) {
    const [took, world] = await timed(() => ask(`accepted ${round}`));
    if (round >= 0) accepted.push(took);
    await daemon.api.ok('DELETE', `/v1/worlds/${world.world_id}`);
  }
  const cached = [];
  for (let round = -2; round < rounds; round += 1) {
    const [took, world] = await timed(() => ask(0));
    if (!world.cached) throw new Error('the world was made twice');
    if (round >= 0) cached.push(took);
  }
  progress('sessions beside a renderer');
  const beside = await visit();
  progress('waiting for the world');
  await rendered;
  times.full = (now() - begun) / 1000;
  const load = (await busySeconds()) - busy;
  await renderer.stop();
  const { cpu, memory } = renderer.used;

  const size = quick ? '1024x512' : '2048x1024';
  table.add({ measure: 'world: accepted', unit: 'ms', ...summary(accepted), goal: goal.p50(20) });
  table.add({ measure: 'world: answered from the cache', unit: 'ms', ...summary(cached), goal: goal.p50(50) });
  table.add({ measure: 'world: preview', unit: 's', p50: times.preview, goal: goal.p50(30) });
  table.add({ measure: `world: ${size}`, unit: 's', p50: times.full, goal: goal.p50(360) });
  table.add({ measure: `world: ${size}, processor time of the renderer`, unit: 's', p50: cpu, goal: goal.p50(720) });
  table.add({ measure: `world: ${size}, peak memory of the renderer`, unit: 'MB', p50: memory, goal: goal.below(3000) });
  table.add({
    measure: 'headless session beside a renderer: create to first page loaded',
    unit: 'ms',
    ...beside,
    against: { name: 'without', p50: alone.p50 },
    goal: goal.atMost(1.5),
  });
  const others = load > 0 ? Math.max(0, 100 - (cpu / load) * 100).toFixed(0) : '?';
  table.note(`worlds: ${others} % of the processor time during the scene was not the renderer's; load at its end ${loadavg()[0].toFixed(1)}`);
  await daemon.api.ok('DELETE', '/v1/patients/bench');
}
