// Ten times: a click, an assertion that passes, and a screenshot, which shows what the assertion has seen.

import assert from 'node:assert/strict';
import { inflateSync } from 'node:zlib';

const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';
const base = process.env.CONNECT_URL.replace(/\/$/, '');

async function command(method, path, body) {
  const headers = { 'content-type': 'application/json' };
  const reply = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
  const { value } = await reply.json();
  assert.ok(reply.ok, `${path}: ${JSON.stringify(value)}`);
  return value;
}

/** The red of the first pixel: nothing precedes it, so every filter of PNG leaves it as it is. */
function red(base64) {
  const png = Buffer.from(base64, 'base64');
  const parts = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  return inflateSync(Buffer.concat(parts))[1];
}

const page = `<!doctype html><title>Count</title><button style="margin:50px" onclick="
  document.body.style.background = \`rgb(\${20 * ++this.textContent}, 0, 0)\`">0</button>`;
const { sessionId } = await command('POST', '/session', { capabilities: {} });
const session = `/session/${sessionId}`;
await command('POST', `${session}/url`, { url: `data:text/html,${encodeURIComponent(page)}` });
const found = await command('POST', `${session}/element`, { using: 'css selector', value: 'button' });
const button = `${session}/element/${found[ELEMENT]}`;
const shown = [];
for (let number = 1; number <= 10; number++) {
  await command('POST', `${button}/click`, {});
  assert.equal(await command('GET', `${button}/text`), String(number));
  shown.push(red(await command('GET', `${session}/screenshot`)) / 20);
}
await command('DELETE', session);
assert.deepEqual(shown, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
console.log(JSON.stringify({ shown }));
