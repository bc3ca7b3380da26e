// The command line of the MCP inspector: lists the daemon's tools, by its strictest check of their schemas, and calls one. Prints
// what it saw as JSON. WARMPOOL_URL and WARMPOOL_SECRET_KEY name the daemon.

import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const manifest = createRequire(import.meta.url).resolve('@modelcontextprotocol/inspector/package.json');
const program = join(dirname(manifest), createRequire(import.meta.url)(manifest).bin['mcp-inspector']);

const folder = await mkdtemp(join(tmpdir(), 'inspector-'));
try {
  const config = join(folder, 'config.json');
  const headers = { Authorization: `Bearer ${process.env.WARMPOOL_SECRET_KEY}` };
  const server = { type: 'streamable-http', url: `${process.env.WARMPOOL_URL}/mcp`, headers };
  await writeFile(config, JSON.stringify({ mcpServers: { warmpool: server } }), { mode: 0o600 });
  const inspect = (...args) =>
    promisify(execFile)(process.execPath, [program, '--cli', '--config', config, '--server', 'warmpool', ...args], {
      env: { ...process.env, HOME: folder, MCP_INSPECTOR_SECRET_STORE: 'memory' },
      timeout: 60_000,
    });
  const listed = await inspect('--method', 'tools/list', '--strict');
  const page = 'url=data:text/html,<h1>Tea house</h1>';
  const called = await inspect('--method', 'tools/call', '--tool-name', 'browser_navigate', '--tool-arg', page);
  // Beside problems it says where it keeps secrets.
  const problems = listed.stderr.split('\n').filter((line) => line && !line.startsWith('[mcp-inspector] '));
  const { tools } = JSON.parse(listed.stdout);
  console.log(JSON.stringify({ tools: tools.length, problems, called: JSON.parse(called.stdout) }));
} finally {
  await rm(folder, { recursive: true });
}
