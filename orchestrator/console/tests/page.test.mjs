// How the console's parts go on where answers come late, streams break, and people come and go.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asked, atRest, form, parts, place } from './page.mjs';

// After the page that they are on.
const { SessionFiles } = await import('../src/console/session-files.ts');
const { SessionShares } = await import('../src/console/session-shares.ts');
const { SessionRecording } = await import('../src/console/session-recording.ts');
const { SessionLog } = await import('../src/console/session-log.ts');
const { LogPage } = await import('../src/console/log.ts');
const { TaskItems } = await import('../src/console/task-items.ts');
const { List } = await import('../src/shared/list.ts');
const { redraw } = await import('../src/shared/dom.ts');
const { trying } = await import('../src/docs/trying.ts');
const { Connection } = await import('../src/connection.ts');
const { KeysPage } = await import('../src/console/keys.ts');
const { TaskPage } = await import('../src/console/task.ts');
const { fromHere } = await import('../src/console/page.ts');
const { RequestLog } = await import('../src/worlds/request-log.ts');
const { Stream } = await import('../src/console/stream.ts');
const { FramesPicture } = await import('../src/frames.ts');
const { attend, attended } = await import('../src/shared/attention.ts');
const { submit } = await import('../src/shared/dialogs.ts');
const { json, Unreachable } = await import('../src/shared/request.ts');

const unreachable = (error) => assert.ok(error instanceof Unreachable, String(error));
const says = (id, ...wanted) => wanted.forEach((text) => assert.ok(place(id).textContent.includes(text), `${id}: ${place(id).textContent}`));
const event = (type, data) => `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;

const click = (element) => element.dispatchEvent(new Event('click'));

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
  says('session-uploading', 'a.txt, uploading…');
  assert.equal(place('session-upload').disabled, true, 'the next files come after these');
  files.clear();
  void files.show('B', true);
  await answer('GET sessions/B/files', [{ name: 'own.txt', size: 1, source: 'upload' }]);
  assert.deepEqual([place('session-uploading').textContent, place('session-upload').disabled], ['', false]);
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

test('a link that cannot be taken back says why', async () => {
  const shares = new SessionShares(() => undefined);
  const busy = [{ error: { code: 'store_busy', message: 'the store is busy' } }, { status: 503 }];
  const list = { shares: [{ share_id: '1', url: 'http://daemon/A', enable_actions: false, expires_at: 1 }] };
  void shares.show('A', true);
  await answer('GET sessions/A/share', list);
  await atRest();
  const end = async () => {
    const button = place('session-shares').children[0].children[2];
    click(button);
    const call = await asked();
    assert.deepEqual([call.what, button.disabled], ['DELETE sessions/A/share/1', true]);
    return call;
  };
  (await end()).answer(...busy);
  await answer('GET sessions/A/share', list);
  await atRest();
  says('session-shares-problem', 'The store is busy');
  // A list that is refused is no empty one.
  (await end()).answer({});
  assert.equal(place('session-shares-problem').textContent, '');
  await answer('GET sessions/A/share', ...busy);
  await atRest();
  says('session-shares-problem', 'The store is busy');
  says('session-shares', 'may watch until');
  assert.equal(place('session-shares').children[0].children[2].disabled, false);
  shares.clear();
  assert.equal(place('session-shares-problem').textContent, '');
});

test('what a link allows stands there also once it was copied', async (context) => {
  Object.defineProperty(globalThis, 'navigator', { configurable: true, value: { clipboard: { writeText: async () => undefined } } });
  context.after(() => delete globalThis.navigator);
  const shares = new SessionShares(unreachable);
  void shares.show('A', true);
  await answer('GET sessions/A/share', { shares: [{ share_id: '1', url: 'http://daemon/A', enable_actions: true, expires_at: 1 }] });
  await atRest();
  click(place('session-shares').children[0].children[1]);
  await atRest();
  says('session-shares', 'may take control until', 'Copied.');
});

/** A list of `x`, whose pages the test answers. */
function listOf(prefix, load) {
  const draw = ({ id }) => Object.assign(document.createElement('tr'), { textContent: id });
  return new List({ prefix, names: ['x', 'xs'], empty: 'None.', load, key: ({ id }) => id, draw, failed: unreachable });
}

test('rows that stay are left in their places', async () => {
  const answers = ['ab', 'cab', 'cb'];
  const meta = { totalPages: 1, totalRecords: 3, currentPage: 1 };
  const list = listOf('changing', async () => ({ rows: [...answers.shift()].map((id) => ({ id })), meta }));
  await list.load();
  const [a, b] = place('changing-rows').children;
  await list.refresh();
  says('changing-rows', 'cab');
  assert.deepEqual([a.puts, b.puts], [1, 1]);
  await list.refresh();
  says('changing-rows', 'cb');
  assert.equal(b.puts, 1);
});

test('no click asks a list for a page that there is not', async () => {
  const pages = [];
  const list = listOf('turned', async (query) => {
    pages.push(query.get('page'));
    return { rows: [], meta: { totalPages: 2, totalRecords: 40, currentPage: Number(pages.at(-1)) } };
  });
  await list.load();
  click(place('turned-next'));
  click(place('turned-next'));
  await atRest();
  click(place('turned-previous'));
  click(place('turned-previous'));
  await atRest();
  assert.deepEqual(pages, ['1', '2', '2', '1', '1']);
});

test('a second click on Next turns one page of items', async () => {
  const items = new TaskItems(unreachable);
  const page = (next) => ({ items: [], next, counts: null });
  items.show({ taskId: 'T', items: { total: 250 } });
  await answer('GET lam/tasks/T/items?limit=100', page(99));
  await atRest();
  click(place('task-items-next'));
  click(place('task-items-next'));
  for (let clicks = 0; clicks < 2; clicks++) await answer('GET lam/tasks/T/items?limit=100&after=99', page(199));
  await atRest();
  click(place('task-items-previous'));
  await answer('GET lam/tasks/T/items?limit=100', page(99));
  assert.equal(await atRest(), true);
  items.clear();
});

test('what looks the same is not drawn again', () => {
  const drawn = (...texts) => texts.map((text) => Object.assign(document.createElement('li'), { textContent: text }));
  redraw(place('drawn'), drawn('a', 'b'));
  const [first] = place('drawn').children;
  redraw(place('drawn'), drawn('a', 'c', 'd'));
  assert.deepEqual([place('drawn').textContent, place('drawn').children[0] === first, first.puts], ['acd', true, 1]);
  redraw(place('drawn'), drawn('a'));
  assert.deepEqual([place('drawn').textContent, first.puts], ['a', 1]);
});

test('a new entry of the log leaves the others in their places', async () => {
  Object.assign(place('log-live'), { checked: true });
  const log = new LogPage(unreachable);
  const entry = (id) => ({ at: 1, id, method: 'GET', route: `/${id}`, status: 200, micros: 1 });
  log.show();
  await answer('GET console/api/log', { requests: [entry('first')], lines: [], kept: 10 });
  await atRest();
  const [first] = place('log-rows').children;
  log.heard({ type: 'request', data: JSON.stringify(entry('second')) });
  await atRest();
  says('log-rows', 'GET /first', 'GET /second');
  assert.deepEqual([place('log-rows').children[1] === first, first.puts], [true, 1]);
  log.hide();
  assert.equal(place('log-rows').textContent, '');
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
  const [first] = place('session-log-rows').children;
  stream.send(event('entry', said(2, 'second')));
  await atRest();
  says('session-log-rows', 'first', 'second');
  assert.equal(first.puts, 1, 'a row that stays is left in its place');
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

test('no click asks the log of requests for worlds for a page that there is not', async (context) => {
  context.mock.timers.enable({ apis: ['setInterval'] });
  context.after(() => form.clear());
  for (const name of ['patient_id', 'environment_type', 'status', 'key_id', 'from', 'to']) form.set(name, '');
  Object.assign(place('world-log-live'), { checked: false });
  place('world-log-limit').value = '10';
  const log = new RequestLog(unreachable, () => undefined);
  const turned = async (page) => {
    await answer(`GET v1/requests?page=${page}&limit=10`, { requests: [], meta: { totalPages: 2, totalRecords: 20, currentPage: page } });
  };
  void log.load();
  await turned(1);
  await atRest();
  click(place('world-log-next'));
  await turned(2);
  await atRest();
  for (let clicks = 0; clicks < 2; clicks++) click(place('world-log-previous'));
  for (let clicks = 0; clicks < 2; clicks++) await turned(1);
  assert.equal(await atRest(), true);
  log.clear();
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

test('a log of a session is not followed while nobody looks', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  context.after(() => (document.hidden = false));
  const log = new SessionLog(unreachable);
  const session = { session_id: 'A', browser_type: 'chromium', logs: true };
  const begins = async () => {
    const stream = parts();
    await answer('GET sessions/A/logs', { entries: [{ seq: 1, type: 'console', level: 'log', time: 1, text: 'first' }], dropped: 0, left_out: [] });
    await answer('GET sessions/A/logs?follow=true&after=1', stream.body);
    return stream;
  };
  // In a tab that was opened in the background, too.
  document.hidden = true;
  void log.show(session, true);
  assert.equal(await atRest(), true);
  document.hidden = false;
  void log.resume(session, true);
  const stream = await begins();
  void log.resume(session, true);
  assert.equal(await atRest(), true, 'one stream is enough');
  document.hidden = true;
  log.rest();
  stream.breakOff();
  void log.resume(session, true);
  await atRest();
  context.mock.timers.tick(60_000);
  assert.equal(await atRest(), true);
  says('session-log-rows', 'first');
  document.hidden = false;
  void log.resume(session, true);
  await begins();
  log.clear();
  await atRest();
});

test('a task is not followed while nobody looks', async (context) => {
  context.after(() => (document.hidden = false));
  const page = new TaskPage(unreachable);
  const task = { taskId: 'T', executionType: 'run', executionTime: 0, inputs: {}, output: [], timestamp: 1, status: 'running', browserType: 'chromium', headless: true, keyId: 'k' };
  const follows = async () => {
    const call = await asked();
    assert.deepEqual([call.what, call.headers.accept], ['GET lam/tasks/T', 'text/event-stream']);
  };
  page.show('T');
  await answer('GET lam/tasks/T', task);
  await answer('GET lam/tasks/T/order', { work: {} });
  await follows();
  document.hidden = true;
  page.rest();
  assert.equal(await atRest(), true);
  // An answer that was on its way opens no stream either.
  page.heard({ type: 'hello', data: '{}' });
  await answer('GET lam/tasks/T', task);
  assert.equal(await atRest(), true);
  document.hidden = false;
  page.heard({ type: 'hello', data: '{}' });
  await answer('GET lam/tasks/T', task);
  await follows();
  page.hide();
  await atRest();
});

test('the log of requests for worlds is not followed while nobody looks', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  context.after(() => {
    document.hidden = false;
    form.clear();
  });
  for (const name of ['patient_id', 'environment_type', 'status', 'key_id', 'from', 'to']) form.set(name, '');
  Object.assign(place('world-log-live'), { checked: true });
  place('world-log-limit').value = '10';
  const log = new RequestLog(unreachable, () => undefined);
  const page = { requests: [], meta: { totalPages: 1, totalRecords: 0, currentPage: 1 } };
  void log.load();
  const stream = parts();
  await answer('GET v1/requests', stream.body);
  await answer('GET v1/requests?page=1&limit=10', page);
  await atRest();
  document.hidden = true;
  log.rest();
  stream.breakOff();
  await atRest();
  context.mock.timers.tick(60_000);
  assert.equal(await atRest(), true);
  void log.load();
  await answer('GET v1/requests?page=1&limit=10', page);
  assert.equal(await atRest(), true);
  // Nor is a stream left that was about to open.
  document.hidden = false;
  void log.load();
  await asked();
  log.rest();
  assert.equal(await atRest(), true);
  log.clear();
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

test('while nobody looks, no more pictures are asked for', async (context) => {
  const { createElement } = document;
  context.after(() => Object.assign(document, { createElement, hidden: false }));
  globalThis.ResizeObserver = class {
    observe() {}
  };
  globalThis.createImageBitmap = async () => ({ width: 1, height: 1, close() {} });
  document.createElement = () => Object.assign(createElement(), { getContext: () => ({ drawImage() {} }) });
  const sent = [];
  const picture = new FramesPicture(place('screen'), { send: ({ type }) => sent.push(type) }, () => undefined);
  document.hidden = true;
  // The daemon sends two before it waits.
  for (let pictures = 0; pictures < 2; pictures++) picture.take(new ArrayBuffer(20));
  await atRest();
  assert.deepEqual(sent, []);
  document.hidden = false;
  document.dispatchEvent(new Event('visibilitychange'));
  await atRest();
  assert.deepEqual(sent, ['ack', 'ack']);
});

test('a page for which there is no place says so until there is one', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  const { WebSocket } = globalThis;
  context.after(() => {
    Object.assign(globalThis, { WebSocket });
    delete globalThis.addEventListener;
    delete document.visibilityState;
  });
  const [sockets, lost] = [[], []];
  globalThis.addEventListener = () => undefined;
  globalThis.WebSocket = class {
    static OPEN = 1;

    constructor() {
      sockets.push(this);
    }

    close() {}
  };
  const connection = new Connection('T', false, { lost: (full) => lost.push(full) });
  const looks = async (body, init) => {
    context.mock.timers.tick(5000);
    await answer('GET console/stream/state?token=T&enable_actions=false', body, init);
    assert.equal(await atRest(), true);
  };
  const full = [{ error: { code: 'socket_limit', message: 'no place' } }, { status: 429 }];
  connection.connect();
  sockets.pop().onclose();
  await looks(...full);
  await looks(...full);
  assert.deepEqual([lost, sockets.length], [[false, true, true], 0]);
  // Somebody looks at it again: it tries at once, and goes on as before.
  document.visibilityState = 'visible';
  document.dispatchEvent(new Event('visibilitychange'));
  sockets.pop().onclose();
  await looks(...full);
  // Another limit says nothing about the session.
  await looks({ error: { code: 'address_limit', message: 'too many' } }, { status: 429 });
  sockets.pop().onclose();
  await looks({ status: 'running' });
  assert.deepEqual([lost, sockets.length], [[false, true, true, false, true, false], 1]);
});

test('a stream that is tried is shown as it comes, until it is stopped', async () => {
  const stream = parts();
  const [{ children: [button] }, shown] = trying(async () => new Response(stream.body, { headers: { 'content-type': 'text/event-stream; charset=utf-8' } }));
  click(button);
  await atRest();
  assert.deepEqual([button.textContent, button.disabled], ['Stop', false]);
  for (const wanted of ['first', 'second']) {
    stream.send(event('entry', wanted));
    await atRest();
    assert.ok(shown.textContent.includes(wanted), shown.textContent);
  }
  click(button);
  await atRest();
  assert.deepEqual([button.textContent, button.disabled], ['Send', false]);
  assert.ok(shown.textContent.includes('first'), 'what has come stays');
});

test('an answer that is no stream is shown once it is whole', async () => {
  const [{ children: [button] }, shown] = trying(async () => new Response('{"a":1}', { headers: { 'content-type': 'application/json' } }));
  click(button);
  assert.equal(button.disabled, true);
  for (let turns = 0; turns < 10 && button.disabled; turns++) await atRest();
  assert.deepEqual([button.textContent, button.disabled], ['Send', false]);
  assert.ok(shown.textContent.includes('"a": 1'), shown.textContent);
});

test('a form that is busy is not sent again', async () => {
  let [sent, arrive] = [0, undefined];
  const act = () => {
    sent++;
    return new Promise((resolve) => (arrive = resolve));
  };
  const first = submit(place('form'), act);
  await submit(place('form'), act);
  assert.equal(sent, 1);
  arrive();
  await first;
  const second = submit(place('form'), act);
  assert.equal(sent, 2);
  arrive();
  await second;
});

test('what was made leads to its page those who still wait for it', () => {
  location.hash = '#/sessions/new';
  const [late, soon] = [fromHere(), fromHere()];
  location.hash = '#/keys';
  late('#/sessions/A');
  assert.equal(location.hash, '#/keys');
  location.hash = '#/sessions/new';
  soon('#/sessions/B');
  assert.equal(location.hash, '#/sessions/B');
});
