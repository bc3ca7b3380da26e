import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer } from '../src/function/answer.ts';
import { Transport } from '../src/function/transport.ts';

const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1]);

test('what code returns is answered as what it is', async () => {
  for (const [value, wanted] of [
    ['tea', { type: 'text/plain; charset=utf-8', text: 'tea' }],
    [undefined, { type: 'text/plain; charset=utf-8', text: '' }],
    [null, { type: 'application/json', text: 'null' }],
    [{ tea: 1 }, { type: 'application/json', text: '{"tea":1}' }],
    [{ data: '<p>', type: 'text/html' }, { type: 'text/html', text: '<p>' }],
    [{ data: { tea: 1 }, type: 'application/json' }, { type: 'application/json', text: '{"tea":1}' }],
    [{ data: 1, type: 2 }, { type: 'application/json', text: '{"data":1,"type":2}' }],
    [PNG, { type: 'image/png', base64: btoa(String.fromCharCode(...PNG)) }],
    [{ data: PNG.buffer, type: 'image/x' }, { type: 'image/x', base64: btoa(String.fromCharCode(...PNG)) }],
    [new Blob(['a'], { type: 'text/csv' }), { type: 'text/csv', base64: btoa('a') }],
    [new Uint16Array([0x4142]), { type: 'application/octet-stream', base64: btoa('BA') }],
  ]) {
    assert.deepEqual(await answer(value, 100), wanted);
  }
});

test('bytes of any length are whole', async () => {
  const bytes = Uint8Array.from({ length: 100_001 }, (_, at) => at % 251);
  const { base64 } = await answer(bytes, 200_000);
  assert.deepEqual(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)), bytes);
});

test('what is too large is not sent', async () => {
  assert.deepEqual(await answer('ä'.repeat(6), 11), { large: true });
  assert.deepEqual(await answer(new Uint8Array(12), 11), { large: true });
  assert.equal((await answer('ä'.repeat(5), 11)).text.length, 5);
});

test('closing the browser is the end of the call, not of the page in which the code runs', async () => {
  const [sent, heard] = [[], []];
  const transport = new Transport((message) => sent.push(message));
  transport.onmessage = (message) => heard.push(JSON.parse(message));
  transport.send('{"id":1,"method":"Browser.close"}');
  transport.send('{"id":2,"method":"Runtime.evaluate","params":{"expression":"\\"Browser.close\\""}}');
  await Promise.resolve();
  assert.deepEqual(heard, [{ id: 1, result: {} }]);
  assert.deepEqual(sent.map((message) => JSON.parse(message).id), [2]);
});
