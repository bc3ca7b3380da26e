// Agents' tools: the first call of a client, and `browser_navigate` with `browser_snapshot` after that, beside Playwright's own MCP
// server with a local browser.

import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { chromium, sandboxArgs } from '../contenders/local.mjs';
import { rotated, summary, timed } from '../stats.mjs';
import { goal } from '../table.mjs';

const require = createRequire(new URL('../peers/package.json', import.meta.url));
const DISCARDED = 1;
const CALLS = 5;

export async function mcp({ daemon, site, peers, rounds, table, progress }) {
  const { Client } = await import(require.resolve('@modelcontextprotocol/sdk/client/index.js'));
  const contenders = [['warmpool', await byHttp(daemon)]];
  if (peers && chromium) contenders.push(["Playwright's MCP", await byProgram()]);
  const [first, later] = [new Map(), new Map()];
  for (let round = -DISCARDED; round < rounds; round += 1) {
    for (const [name, transport] of rotated(contenders, round + DISCARDED)) {
      await daemon.full();
      const client = new Client({ name: 'bench', version: '1.0.0' });
      const call = async (tool, args) => {
        const result = await client.callTool({ name: tool, arguments: args }, undefined, { timeout: 60_000 });
        if (result.isError) throw new Error(`${name}: ${tool}: ${result.content[0]?.text}`);
        return result.content[0].text;
      };
      const look = async () => {
        await call('browser_navigate', { url: site });
        const seen = await call('browser_snapshot', {});
        if (!seen.includes('A page')) throw new Error(`${name} saw ${seen}`);
      };
      // From nothing: the connection, the browser and its first page.
      const [begun] = await timed(async () => {
        await client.connect(transport());
        await look();
      });
      const times = [];
      for (let at = 0; at < CALLS; at += 1) times.push((await timed(look))[0]);
      await client.transport.terminateSession?.();
      await client.close();
      if (round < 0) continue;
      first.set(name, [...(first.get(name) ?? []), begun]);
      later.set(name, [...(later.get(name) ?? []), ...times]);
    }
    if (round >= 0) progress(`client ${round + 1} of ${rounds}`);
  }
  const peer = contenders[1]?.[0];
  for (const [measure, times, wanted] of [
    ['MCP: connect, navigate and snapshot', first, goal.atMost(0.4)],
    ['MCP: navigate and snapshot, after that', later, goal.atMost(1.2)],
  ]) {
    const against = peer ? { against: { name: peer, ...summary(times.get(peer)) }, goal: wanted } : {};
    table.add({ measure, unit: 'ms', ...summary(times.get('warmpool')), ...against });
  }
}

async function byHttp(daemon) {
  const { StreamableHTTPClientTransport } = await import(require.resolve('@modelcontextprotocol/sdk/client/streamableHttp.js'));
  const requestInit = { headers: { Authorization: `Bearer ${daemon.key}` } };
  return () => new StreamableHTTPClientTransport(new URL(`${daemon.url}/mcp`), { requestInit });
}

async function byProgram() {
  const { StdioClientTransport } = await import(require.resolve('@modelcontextprotocol/sdk/client/stdio.js'));
  const manifest = require.resolve('@playwright/mcp/package.json');
  const { bin } = require(manifest);
  const program = join(dirname(manifest), typeof bin === 'string' ? bin : Object.values(bin)[0]);
  const unconfined = sandboxArgs.length > 0 ? ['--no-sandbox'] : [];
  const args = [program, '--headless', '--isolated', '--executable-path', chromium, ...unconfined];
  return () => new StdioClientTransport({ command: process.execPath, args, cwd: tmpdir(), stderr: 'ignore' });
}
