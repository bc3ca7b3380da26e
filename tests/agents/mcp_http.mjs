// Drives the daemon's own MCP endpoint with the official client: every tool once, and what goes wrong with tools. With BRIDGE,
// the program `warmpool`, it starts that instead, and with BRIEF it does less. Prints what
// it saw as JSON. WARMPOOL_URL and WARMPOOL_SECRET_KEY name the daemon, SITE_URL the site, QUERY what stands behind `/mcp`.

import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const { WARMPOOL_URL, WARMPOOL_SECRET_KEY, SITE_URL, QUERY = '', BRIDGE } = process.env;
const headers = { Authorization: `Bearer ${WARMPOOL_SECRET_KEY}` };
const transport = BRIDGE
  ? new StdioClientTransport({ command: BRIDGE, args: ['mcp', '--service', WARMPOOL_URL], env: { WARMPOOL_SECRET_KEY }, stderr: 'inherit' })
  : new StreamableHTTPClientTransport(new URL(`${WARMPOOL_URL}/mcp${QUERY}`), { requestInit: { headers } });
const client = new Client({ name: 'warmpool-test', version: '1.0.0' });
await client.connect(transport);
const { tools } = await client.listTools();

const raw = (name, parameters = {}) => client.callTool({ name, arguments: parameters }, undefined, { timeout: 60_000 });
const words = (result) => result.content.map((part) => part.text ?? '').join('\n');
const call = async (name, parameters) => {
  const result = await raw(name, parameters);
  assert.ok(!result.isError, `${name} ${JSON.stringify(parameters)}: ${words(result)}`);
  return words(result);
};
const fails = async (name, parameters, problem) => {
  const result = await raw(name, parameters);
  assert.ok(result.isError, `${name} should fail: ${words(result)}`);
  assert.match(words(result), problem);
};
// What a page did is told a little later.
const until = async (name, parameters, wanted) => {
  for (let tries = 0; ; tries += 1) {
    const text = await call(name, parameters);
    if (wanted.test(text) || tries === 50) return assert.match(text, wanted);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
};
// The reference of the line that has this.
const ref = (text, line) => {
  const found = text.split('\n').find((one) => one.includes(line));
  assert.ok(found, `${line} in ${text}`);
  return /\[ref=(e\d+)\]/.exec(found)[1];
};
const says = (text, log) => assert.match(text, new RegExp(`paragraph \\[ref=e\\d+\\]: "${log}"`), text);
const report = { server: client.getServerVersion().name, tools: tools.length };

let page = await call('browser_navigate', { url: `${SITE_URL}/agent` });
assert.match(page, /Page URL: .*\/agent\nPage title: "Agent"/);
assert.match(page, /- heading "Tea house" \[level=1\] \[ref=e\d+\]/);
assert.match(page, /- link "Home" \[ref=e\d+\]:\n +- \/url: "http/);
assert.match(page, /- button "Never" \[disabled\]/);
const [brew, name] = [ref(page, 'button "Brew"'), ref(page, 'textbox "Name"')];
const leave = ref(page, 'button "Leave"');

if (process.env.BRIEF) {
  says(await call('browser_click', { target: brew }), 'clicked 10false');
  const read = await call('read');
  report.read = read;
  console.log(JSON.stringify(report));
  await client.close();
  process.exit(0);
}

says(await call('browser_click', { element: 'Brew', target: brew, modifiers: ['Shift'] }), 'clicked 10true');
says(await call('browser_click', { ref: brew, doubleClick: true }), 'clicked 20false');
says(await call('browser_type', { target: name, text: 'Ann', submit: true }), 'sent Ann');
page = await call('browser_type', { target: name, text: 'a', slowly: true });
assert.match(page, /textbox "Name".*: "Anna"/);
page = await call('browser_fill_form', { fields: [
  { target: name, name: 'Name', type: 'textbox', value: 'Bea' },
  { target: ref(page, 'combobox "Tea"'), name: 'Tea', type: 'combobox', value: 'Black' },
  { target: ref(page, 'checkbox "Milk"'), name: 'Milk', type: 'checkbox', value: 'true' },
] });
says(page, 'milk true');
assert.match(page, /checkbox "Milk" \[checked\]/);
assert.equal(ref(page, 'button "Brew"'), brew, 'a reference stays');
says(await call('browser_select_option', { target: ref(page, 'combobox "Tea"'), values: ['Green'] }), 'tea g');
await fails('browser_select_option', { target: brew, values: ['x'] }, /no list of options/);
says(await call('browser_hover', { target: ref(page, '"Hover here"') }), 'hovered');
if (!QUERY.includes('webkit')) says(await call('browser_drag', { startTarget: '#cup', endTarget: '#table' }), 'dropped cup');

await call('browser_evaluate', { function: '() => document.querySelector("#name_").focus()' });
assert.match(await call('browser_press_key', { key: 'Control+a' }), /textbox "Name" \[active\]/);
assert.match(await call('browser_press_key', { key: 'Z' }), /textbox "Name" \[active\] \[ref=e\d+\]: "Z"/);
assert.equal(await call('browser_evaluate', { function: '(element) => element.value', target: name }), '"Z"');
await fails('browser_evaluate', { function: '() => { throw new Error("on purpose"); }' }, /on purpose/);

// Dialogs, and what waits for them.
const asked = await call('browser_click', { target: ref(page, 'button "Ask"') });
assert.match(asked, /dialog "Really\?".*browser_handle_dialog/);
await fails('browser_snapshot', {}, /browser_handle_dialog/);
says(await call('browser_handle_dialog', { accept: true }), 'answered true');
await fails('browser_handle_dialog', { accept: true }, /no dialog/);

// A frame, a file, another tab.
page = await call('browser_snapshot');
assert.match(await call('browser_click', { target: ref(page, 'button "Pour"') }), /button "Poured"/);
const waits = await call('browser_click', { target: ref(page, 'button "Menu"') });
assert.match(waits, /browser_file_upload/);
says(await call('browser_file_upload', { files: [{ name: 'menu.txt', text: 'tea' }] }), 'file menu.txt tea');
await fails('browser_file_upload', { paths: ['nothing.txt'] }, /no file "nothing.txt"/);
assert.match(await call('browser_click', { target: ref(page, 'link "Other tab"') }), /Open tabs: 2/);
assert.match(await call('browser_tabs', { action: 'list' }), /- 0: \(current\) "Agent"[^]*- 1: "Tab 1"/);
assert.match(await call('browser_tabs', { action: 'select', index: 1 }), /Page title: "Tab 1"/);
await fails('browser_click', { target: brew }, /another tab/);
assert.match(await call('browser_tabs', { action: 'close' }), /Page title: "Agent"/);
for (const next of [['browser_snapshot', {}], ['browser_hover', { target: '#cup' }]]) {
  await call('browser_click', { target: ref(page, 'link "Other tab"') });
  await call('browser_tabs', { action: 'select', index: 1 });
  await raw('browser_evaluate', { function: '() => { close(); }' });
  assert.match(await call(...next), /Page title: "Agent"/, 'a tab that its page closes is left');
}

// What is covered, what has left, and what never was.
await fails('browser_click', { target: ref(page, 'button "Under"') }, /covered by/);
await fails('browser_click', { target: ref(page, 'button "Never"') }, /disabled/);
says(await call('browser_click', { target: leave }), 'gone');
await fails('browser_click', { target: leave }, /not on the page any more.*browser_snapshot/);
await fails('browser_click', { target: 'e99999' }, /no snapshot has shown/);
await fails('browser_click', { target: 'button' }, /matches \d+ elements/);
await fails('browser_click', { target: '#nowhere' }, /nothing on the page matches/);
await fails('browser_click', {}, /target/);
await fails('browser_navigate', { url: 'file:///etc/passwd' }, /must be http, https or data/);
await fails('browser_press_key', { key: 'Nonsense' }, /not known/);
await assert.rejects(raw('browser_clik'), /browser_click/);

assert.match(await call('browser_wait_for', { text: 'Tea house' }), /The wait is over/);
const picture = await raw('browser_take_screenshot', { fullPage: true });
assert.equal(picture.content[0].mimeType, 'image/png');
assert.ok(Buffer.from(picture.content[0].data, 'base64').subarray(1, 4).equals(Buffer.from('PNG')));
report.picture = picture.content[0].data.length;
assert.ok((await raw('browser_take_screenshot', { target: brew })).content[0].data.length < report.picture);
await until('browser_console_messages', { level: 'error' }, /^Messages: \d+\n\[error\] "boiled over" @ /);
await until('browser_console_messages', {}, /\[info\] "brewing"/);
await until('browser_network_requests', {}, /\[GET\] .*\/api\/data => 200/);
if (QUERY === '') {
  assert.match(await call('browser_pdf_save', { filename: 'tea.pdf' }), /"tea.pdf" has \d+ bytes/);
  const jpeg = await raw('browser_take_screenshot', { type: 'jpeg' });
  assert.equal(jpeg.content[0].mimeType, 'image/jpeg');
}
await call('browser_resize', { width: 640, height: 480 });
assert.equal(await call('browser_evaluate', { function: '() => innerWidth' }), '640');
await call('browser_navigate', { url: `${SITE_URL}/` });
assert.match(await call('browser_console_messages', {}), /^Messages: 0$/, 'another page has nothing of the one before');
assert.match(await call('browser_console_messages', { all: true }), /"brewing"/);
assert.match(await call('browser_navigate_back'), /\/agent/);
await fails('browser_navigate', { url: process.env.REFUSED_URL }, /egress/);
await call('browser_evaluate', { function: '() => { document.cookie = "login=mcp; path=/; max-age=10000"; }' });
assert.match(await call('save_profile', { name: 'agent' }), /"agent" has what sites kept/);
await fails('save_profile', { name: 'a/b' }, /name/);
if (QUERY === '') {
  // Refused before a browser is taken, and done in a browser of its own.
  await fails('run_task', { kind: 'extract' }, /`kind` and `order`/);
  await fails('run_task', { kind: 'extract', order: { url: SITE_URL, schema: { title: 'h1' }, wat: 1 } }, /`wat`/);
  await fails('run_task', { taskId: 'nobody' }, /no task/);
  const begun = await call('run_task', { kind: 'extract', order: { url: `${SITE_URL}/agent`, schema: { title: 'h1' } }, wait: 0 });
  const [, taskId] = /^The task (\w+) is /.exec(begun);
  assert.equal(JSON.parse(await call('run_task', { taskId })).output[0].title, 'Tea house');
}
report.live_view = await call('live_view_url', {});
assert.match(await call('browser_close'), /given back/);
console.log(JSON.stringify(report));
if (transport.terminateSession) await transport.terminateSession();
await client.close();
