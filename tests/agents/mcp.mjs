// Drives an MCP server as an agent's client does: initialize, tools/list, a page, and what is on it. Prints the results as
// JSON. The server and its arguments stand on the command line; the page is SITE_URL.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const [name, ...args] = process.argv.slice(2);
const require = createRequire(import.meta.url);

// What `npx NAME` starts.
function program(name) {
  const folder = join(dirname(new URL(import.meta.url).pathname), 'node_modules', name);
  const { bin } = require(join(folder, 'package.json'));
  return join(folder, typeof bin === 'string' ? bin : (bin[name.split('/').pop()] ?? Object.values(bin)[0]));
}

const transport = new StdioClientTransport({
  command: process.execPath,
  args: [program(name), ...args],
  env: { ...process.env },
  stderr: 'inherit',
});
const client = new Client({ name: 'warmpool-test', version: '1.0.0' });
await client.connect(transport);

const { tools } = await client.listTools();
const names = tools.map((tool) => tool.name);
const tool = (...choices) => {
  const found = choices.find((choice) => names.includes(choice));
  if (!found) throw new Error(`none of ${choices} is among ${names}`);
  return found;
};
const call = async (tool, parameters) => {
  const result = await client.callTool({ name: tool, arguments: parameters }, undefined, { timeout: 60_000 });
  const text = result.content.map((part) => part.text ?? '').join('\n');
  if (result.isError) throw new Error(`${tool}: ${text}`);
  return text;
};

// Some servers want to know which page is meant.
const named = tools.some((one) => one.inputSchema.required?.includes('pageId'));
const pages = named ? await call('list_pages', {}) : '';
const place = named ? { pageId: Number(/^\s*(\d+):/m.exec(pages)?.[1]) } : {};
const navigated = await call(tool('browser_navigate', 'navigate_page'), { url: process.env.SITE_URL, ...place });
const snapshot = await call(tool('browser_snapshot', 'take_snapshot'), place);
console.log(JSON.stringify({ server: client.getServerVersion().name, tools: names.length, navigated, snapshot }));
await client.close();
