// What the way through the daemon costs pages: the same Chromium in a worker and in a bare container that reaches the site
// directly, by turns.

import { startBare } from '../bare.mjs';
import { Daemon } from '../daemon.mjs';
import { gateway, mainProcess, removeContainer } from '../docker.mjs';
import { Probe, withTwoProbes } from '../probes.mjs';
import { serveSite } from '../site.mjs';
import { summary, until } from '../stats.mjs';
import { goal } from '../table.mjs';
import { alternate } from './relay.mjs';

/** Loads before the other browser has its turn. */
const BLOCK = 5;
const MEGABYTES = 100;
/** What sends a browser through the agent. */
const PROXY = /^--proxy-/;

export async function egress({ binary, image, network, rounds, quick, table, progress }) {
  const pool = { POOL_CHROMIUM_HEADLESS: 1, POOL_CHROMIUM_HEADED: 0, POOL_FIREFOX_HEADED: 0, POOL_WEBKIT_HEADED: 0 };
  const daemon = await Daemon.start(binary, { ...pool, WORKER_CHROMIUM_IMAGE: image });
  let site;
  let bare;
  try {
    site = await serveSite(await gateway(network));
    const [like] = await daemon.containers();
    bare = await startBare(image, network, like.id, (words) => words.filter((word) => !PROXY.test(word)));
    const session = await daemon.create({ headless: true });
    // The worker that takes its place starts up first: it would weigh on the measurement that runs then.
    await daemon.full();
    await withTwoProbes(await mainProcess(bare), async (through, direct) => {
      await through.ask('browser', { websocket: session.websocket_url });
      await until('the bare browser', 20, () => direct.ask('browser', { debugging: 'http://127.0.0.1:9222' }).then(() => true, () => false));
      const pair = [through, direct];
      const url = `${site.url}rich`;
      // The first of everything is slower on both sides.
      for (const probe of pair) await probe.ask('loads', { url, count: BLOCK });
      const [ours, theirs] = await alternate(pair, rounds * 2, (probe) => probe.ask('loads', { url, count: BLOCK }));
      table.add({
        ...{ measure: 'page of 40 requests and 1 MB, through the tunnel', unit: 'ms', ...summary(ours) },
        ...{ against: { name: 'directly', ...summary(theirs) }, goal: goal.atMost(1.05) },
      });
      progress('page loads done');
      const load = { url: `${site.url}bytes?megabytes=${MEGABYTES}`, megabytes: MEGABYTES };
      for (const probe of pair) await probe.ask('download', load);
      const speeds = async (probe) => [await probe.ask('download', load)];
      const [fast, bareSpeed] = await alternate(pair, quick ? 2 : 10, speeds);
      table.add({
        ...{ measure: `download of ${MEGABYTES} MB, through the tunnel`, unit: 'MB/s', p50: summary(fast).p50, n: fast.length },
        ...{ against: { name: 'directly', ...summary(bareSpeed) }, goal: goal.atLeast(0.8) },
      });
    }, Probe.enter);
    await daemon.end(session);
  } finally {
    if (bare) await removeContainer(bare);
    site?.close();
    await daemon.stop();
  }
}
