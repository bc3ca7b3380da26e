// How the console's parts go on where answers come late, streams break, and people come and go.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asked, atRest, form, parts, place } from './page.mjs';

// After the page that they are on.
const { SessionFiles } = await import('../src/console/session-files.ts');
const { SessionShares } = await import('../src/console/session-shares.ts');
const { SessionRecording } = await import('../src/console/session-recording.ts');
const { SessionLog } = await import('../src/console/session-log.ts');
const { KeysPage } = await import('../src/console/keys.ts');
const { RequestLog } = await import('../src/worlds/request-log.ts');
const { Stream } = await import('../src/console/stream.ts');
const { FramesPicture } = await import('../src/frames.ts');
const { attend, attended } = await import('../src/shared/attention.ts');
const { json, Unreachable } = await import('../src/shared/request.ts');

const unreachable = (error) => assert.ok(error instanceof Unreachable, String(error));
const says = (id, ...wanted) => wanted.forEach((text) => assert.ok(place(id).textContent.includes(text), `${id}: ${place(id).textContent}`));
const event = (type, data) => `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;

/** Answers the next call, which is this one. */
async function answer(what, body, init) {
  const call = await asked();
  assert.equal(call.what, what);
  call.answer(body, init);
  return call;
}

test('files that were chosen for a session go to that session alone', async () => {
  const files = new SessionFiles(() => undefined);
  void files.show('A', true);
  await answer('GET sessions/A/files', []);
  place('session-upload').files = [{ name: 'a.txt' }, { name: 'b.txt' }];
  place('session-upload').dispatchEvent(new Event('change'));
  const first = await asked();
  files.clear();
  void files.show('B', true);
  await answer('GET sessions/B/files', [{ name: 'own.txt', size: 1, source: 'upload' }]);
  assert.equal(first.what, 'PUT sessions/A/files/a.txt');
  first.answer({});
  await answer('PUT sessions/A/files/b.txt', {});
  await answer('GET sessions/A/files', [{ name: 'a.txt', size: 1, source: 'upload' }]);
  assert.equal(await atRest(), true);
  says('session-file-list', 'own.txt');
  assert.doesNotMatch(place('session-file-list').textContent, /a\.txt/);
  // Nor does a refusal of the other one's stand here.
  place('session-upload').dispatchEvent(new Event('change'));
  const late = await asked();
  void files.show('C', false);
  late.answer({ error: { code: 'disk_full', message: 'no room' } }, { status: 507 });
  assert.equal(await atRest(), true);
  assert.equal(place('session-files-problem').textContent, '');
  assert.equal(place('session-file-list').textContent, '');
});

test('links and recordings of another session are not shown', async () => {
  const shares = new SessionShares(unreachable);
  void shares.show('A', true);
  const late = await asked();
  void shares.show('B', true);
  await answer('GET sessions/B/share', { shares: [] });
  late.answer({ shares: [{ share_id: '1', url: 'http://daemon/A', enable_actions: true, expires_at: 1 }] });
  await atRest();
  says('session-shares', 'No links yet');

  const recording = new SessionRecording(unreachable);
  Object.assign(place('session-video'), { src: '' });
  void recording.show('A', true, false);
  const parts = await asked();
  recording.clear();
  void recording.show('B', true, false);
  await answer('GET sessions/B/recording', { parts: [] });
  parts.answer({ parts: [{ name: 'a.webm', size: 1, complete: true, started_at: 1 }] });
  await atRest();
  says('session-recording-list', 'No recording was kept');
});

test('the keys are read again where they have changed, and not at each change of a session', async () => {
  Object.assign(document, { body: place('body') });
  const keys = new KeysPage(unreachable);
  assert.deepEqual(keys.topics, ['keys']);
  keys.heard({ type: 'sessions', data: '{}' });
  assert.equal(await atRest(), true);
  for (const type of ['hello', 'keys']) {
    keys.heard({ type, data: '{}' });
    await answer('GET console/api/keys', { keys: [] });
    assert.equal(await atRest(), true);
  }
});

test('a log whose stream breaks is read and followed again', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const failures = [];
  const log = new SessionLog((error) => failures.push(error));
  const said = (seq, text) => ({ seq, type: 'console', level: 'log', time: 1, text });
  const read = (entries) => answer('GET sessions/A/logs', { entries, dropped: 0, left_out: [] });
  void log.show({ session_id: 'A', browser_type: 'chromium', logs: true }, true);
  await read([said(1, 'first')]);
  const stream = parts();
  await answer('GET sessions/A/logs?follow=true&after=1', stream.body);
  stream.send(event('entry', said(2, 'second')));
  await atRest();
  says('session-log-rows', 'first', 'second');
  stream.breakOff();
  assert.equal(await atRest(), true);
  // The daemon is away, then not ready, then counts anew.
  for (const fail of [(call) => call.fail(), (call) => call.answer({ error: { code: 'starting', message: 'wait' } }, { status: 503 })]) {
    context.mock.timers.tick(3000);
    fail(await asked());
    assert.equal(await atRest(), true);
  }
  assert.equal(failures.length, 2);
  context.mock.timers.tick(3000);
  await read([said(1, 'third')]);
  const next = parts();
  await answer('GET sessions/A/logs?follow=true&after=1', next.body);
  next.send(event('entry', said(2, 'fourth')));
  await atRest();
  says('session-log-rows', 'third', 'fourth');
  assert.equal(place('session-log-problem').textContent, '');
  // Once it is not looked at, nothing more is asked for.
  log.clear();
  next.end();
  await atRest();
  context.mock.timers.tick(60_000);
  assert.equal(await atRest(), true);
  // What is refused is not asked for again.
  void log.show({ session_id: 'A', browser_type: 'chromium', logs: true }, true);
  await answer('GET sessions/A/logs', { error: { code: 'conflict', message: 'not kept' } }, { status: 409 });
  await atRest();
  says('session-log-problem', 'Not kept');
  context.mock.timers.tick(60_000);
  assert.equal(await atRest(), true);
});

test('the log of requests for worlds is followed again, too', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  for (const name of ['patient_id', 'environment_type', 'status', 'key_id', 'from', 'to']) form.set(name, '');
  Object.assign(place('world-log-live'), { checked: true });
  place('world-log-limit').value = '10';
  const log = new RequestLog(unreachable, () => undefined);
  const page = { requests: [], meta: { totalPages: 1, totalRecords: 0, currentPage: 1 } };
  void log.load();
  for (const end of ['end', 'breakOff']) {
    const stream = parts();
    await answer('GET v1/requests', stream.body);
    await answer('GET v1/requests?page=1&limit=10', page);
    await atRest();
    stream[end]();
    assert.equal(await atRest(), true);
    context.mock.timers.tick(1000);
  }
  (await asked()).fail();
  assert.equal(await atRest(), true);
  context.mock.timers.tick(1000);
  await answer('GET v1/requests', parts().body);
  log.clear();
  form.clear();
  await atRest();
});

test('each sign of life is told, and every attempt that fails is followed by another', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const told = [];
  const tell = (what) => (said) => told.push(said?.code ?? said?.type ?? what);
  const stream = new Stream(tell('heard'), tell('alive'), tell('lost'), tell('signed out'));
  const next = () => told.splice(0);
  stream.start(['overview']);
  const open = parts();
  await answer('GET console/api/events?topic=overview', open.body);
  await atRest();
  assert.deepEqual(next(), ['alive']);
  // The daemon's sign of life is no event.
  open.send(':\n\n');
  await atRest();
  assert.deepEqual(next(), ['alive']);
  open.send(event('hello', {}));
  await atRest();
  assert.deepEqual(next(), ['alive', 'hello']);
  open.breakOff();
  await atRest();
  assert.deepEqual(next(), ['lost']);
  for (const [status, code] of [[429, 'stream_limit'], [500, 'internal']]) {
    context.mock.timers.tick(10_000);
    await answer('GET console/api/events?topic=overview', { error: { code, message: code } }, { status });
    await atRest();
    assert.deepEqual(next(), [code]);
  }
  context.mock.timers.tick(10_000);
  await answer('GET console/api/events?topic=overview', { error: { code: 'invalid_key', message: 'no' } }, { status: 401 });
  await atRest();
  context.mock.timers.tick(60_000);
  assert.equal(await atRest(), true);
  assert.deepEqual(next(), ['invalid_key']);
  stream.stop();
});

test('a call is a use of the sign-in where somebody has done something', async () => {
  attended();
  const page = new EventTarget();
  attend(page);
  const sent = async () => {
    void json('GET', 'sessions');
    return (await answer('GET sessions', {})).headers['x-warmpool-console'];
  };
  assert.equal(await sent(), 'follow');
  page.dispatchEvent(new Event('pointerdown'));
  assert.deepEqual([await sent(), await sent()], ['1', 'follow']);
  page.dispatchEvent(new Event('message'));
  assert.equal(await sent(), 'follow');
});

test('a picture that arrives after the end hides nothing', async () => {
  globalThis.ResizeObserver = class {
    observe() {}
    disconnect() {}
  };
  const decoded = [];
  globalThis.createImageBitmap = () => new Promise((resolve) => decoded.push(() => resolve({ width: 1, height: 1, close: () => closed++ })));
  let [shown, closed] = [0, 0];
  const { createElement } = document;
  document.createElement = () => Object.assign(createElement(), { getContext: () => ({ drawImage() {} }) });
  const picture = new FramesPicture(place('screen'), { send() {} }, () => shown++);
  picture.take(new ArrayBuffer(20));
  decoded.shift()();
  await atRest();
  assert.deepEqual([shown, closed], [1, 1]);
  picture.take(new ArrayBuffer(20));
  picture.close();
  decoded.shift()();
  await atRest();
  assert.deepEqual([shown, closed], [1, 2]);
  document.createElement = createElement;
});
