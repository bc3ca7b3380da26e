// Runs the commands of WebDriver, good ones and bad ones, and prints the answer to each. The test compares two runs on the
// same engine, one through Warmpool and one directly at the driver: they have to be alike.
//
// DRIVER_URL is the server, DRIVER_SOCKET the Unix socket where that is its port, CAPABILITIES what its session is to have; SITE_URL the test site. No client library: what
// goes over the wire is the matter.

import http from 'node:http';

const { DRIVER_URL, DRIVER_SOCKET: socketPath, SITE_URL: site } = process.env;
const base = DRIVER_URL.replace(/\/$/, '');
const capabilities = JSON.parse(process.env.CAPABILITIES ?? '{}');
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';
const SHADOW = 'shadow-6066-11e4-a52e-4f735466cecf';
const WINDOW = 'window-fcc6-11e5-b4f8-330a88ab9d7f';
/** As large as what some page sources and uploads are. */
const LARGE = 3_000_000;

const results = [];
/** Ids of drivers differ from one run to the next: each becomes its number in the order of appearance. */
const ids = new Map();
let session = '';

function exchange(method, path, body, headers = {}) {
  const url = new URL(base + path);
  const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
  const { chunked, ...others } = headers;
  const head = { ...(text !== undefined && { 'content-type': 'application/json; charset=utf-8' }), ...others };
  if (text !== undefined && !chunked) head['content-length'] = Buffer.byteLength(text);
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method, agent, socketPath, headers: head, path: url.pathname + url.search }, (reply) => {
      const parts = [];
      reply.on('data', (part) => parts.push(part));
      reply.on('error', reject);
      reply.on('end', () => resolve({ reply, text: Buffer.concat(parts).toString() }));
    });
    request.on('error', reject);
    request.end(text);
  });
}

function note(id, kind) {
  if (typeof id === 'string' && id !== '' && !ids.has(id)) ids.set(id, `<${kind} ${ids.size}>`);
}

/** What may differ between two browsers that are alike: ids, pictures' bytes, what an error says about internals. */
function plain(value, key = '') {
  if (Array.isArray(value)) return value.map((entry) => plain(entry));
  if (value !== null && typeof value === 'object') {
    for (const kind of [ELEMENT, SHADOW, WINDOW]) note(value[kind], kind.split('-')[0]);
    return Object.fromEntries(Object.entries(value).sort().map(([name, entry]) => [name, plain(entry, name)]));
  }
  if (typeof value !== 'string') return value;
  if (key === 'stacktrace') return '<stacktrace>';
  if (/^iVBOR/.test(value)) return `<PNG ${Buffer.from(value.slice(0, 64), 'base64').readUInt32BE(16)} wide>`;
  if (/^JVBER/.test(value)) return '<PDF>';
  if (value.length > 5000) return `<${value.length} characters: ${value.slice(0, 20)}>`;
  let text = key === 'message' ? value.replace(/-?\d+\.\d{3}\b/g, '<seconds>') : value;
  // An element's id may have its window's in it.
  for (const [id, name] of [...ids].sort(([one], [two]) => two.length - one.length)) text = text.replaceAll(id, name);
  // Half of a surrogate pair is not valid in the JSON that the test reads.
  return text.toWellFormed();
}

/** Does one command and keeps its answer; gives the value. `look` makes the value one that can be compared; of an error
 * that is the service's own (`ours`) only the W3C code has to be the driver's. */
async function step(name, method, path, body, { look = (value) => value, headers, ours = false } = {}) {
  const whole = path.startsWith('//') ? path.slice(1) : `/session/${session}${path}`;
  try {
    const { reply, text } = await exchange(method, whole, body, headers);
    let value;
    let shape = 'JSON';
    try {
      const json = JSON.parse(text);
      value = json.value;
      shape = Object.keys(json).filter((field) => field !== 'sessionId' && field !== 'status').join(' ');
    } catch {
      shape = text === '' ? 'empty' : 'text';
    }
    const { 'content-type': type = '', 'cache-control': cache = '' } = reply.headers;
    if (ours) {
      results.push({ name: plain(name), status: reply.statusCode, shape, value: value?.error });
      return value;
    }
    const compared = plain(reply.statusCode === 200 ? look(value) : value);
    const kind = type.toLowerCase().replace(/\s/g, '');
    results.push({ name: plain(name), status: reply.statusCode, type: kind, cache, shape, value: compared });
    return value;
  } catch (error) {
    results.push({ name: plain(name), broken: error.code ?? String(error) });
    return null;
  }
}

const get = (path, options) => step(`GET ${path}`, 'GET', path, undefined, options);
const post = (name, path, body, options) => step(`${name}: POST ${path}`, 'POST', path, body, options);
const del = (path) => step(`DELETE ${path}`, 'DELETE', path);
const run = (name, script, args = [], options) => post(name, '/execute/sync', { script, args }, options);
const find = (css) => post(`find ${css}`, '/element', { using: 'css selector', value: css });
/** A page of this body, in the site's origin. */
async function page(html) {
  await post('page', '/url', { url: `${site}/` });
  await run('content', 'document.body.innerHTML = arguments[0]', [html]);
}
async function on(css) {
  const found = await find(css);
  return found?.[ELEMENT] ?? 'none';
}

async function open() {
  const { reply, text } = await exchange('POST', '/session', { capabilities: { alwaysMatch: capabilities } });
  const { value } = JSON.parse(text);
  if (reply.statusCode !== 200) throw new Error(text);
  session = value.sessionId;
  note(session, 'session');
  // The driver reports its browser's version and its process; services add capabilities of their own.
  const told = Object.entries(value.capabilities).filter(([name]) => !/^(se:|moz:|goog:chromeOptions|chrome$|webkitgtk:|platformName|setWindowRect)/.test(name));
  results.push({ name: 'new session', value: plain(Object.fromEntries(told)) });
}

async function navigation() {
  await post('timeouts', '/timeouts', { script: 2000, pageLoad: 15_000, implicit: 0 });
  await get('/timeouts');
  await post('a timeout that is none', '/timeouts', { implicit: -1 });
  await post('navigate', '/url', { url: `${site}/form` });
  await get('/url');
  await get('/title');
  await post('navigate on', '/url', { url: `${site}/tab/7` });
  await post('back', '/back', {});
  await get('/title');
  await post('forward', '/forward', {});
  await get('/title');
  await post('refresh', '/refresh', {});
  await post('no URL', '/url', { url: 'no url' });
  await post('no server', '/url', { url: 'http://127.0.0.1:1/' });
  await post('nothing to navigate to', '/url', {});
  await post('a number for a URL', '/url', { url: 7 });
  await post('a page that is too slow', '/timeouts', { pageLoad: 200 });
  await post('slow', '/url', { url: `${site}/slow?ms=3000` });
  await post('patience', '/timeouts', { pageLoad: 15_000 });
  await post('navigate', '/url', { url: `${site}/form` });
  await get('/source', { look: (text) => text.length > 100 });
}

async function elements() {
  await page(`<p id=p class=c title=t style="color:#123456">Ein Wört <b>fett</b> 漢字 🦀</p><a href=#x>link text</a>
    <input id=i name=n value=v><input id=c type=checkbox checked><input id=d disabled><textarea id=t>x</textarea>
    <select id=s><option id=o1>1<option id=o2 selected>2</select><div id=h hidden>hidden</div>
    <div style="position:relative;height:40px"><button id=under>u</button>
    <div style="position:absolute;inset:0" id=over></div></div><input id=f type=file><h1 aria-label=Label>head</h1>`);
  for (const [using, value] of [
    ['css selector', '#p'], ['xpath', '//p'], ['link text', 'link text'], ['partial link text', 'link'], ['tag name', 'p'],
    ['css selector', '#missing'], ['css selector', '<'], ['xpath', '///'], ['xpath', 'count(//p)'], ['nonsense', 'p'],
  ]) {
    await post(`find ${using} ${value}`, '/element', { using, value });
    await post(`find all ${using} ${value}`, '/elements', { using, value });
  }
  await post('find without a value', '/element', { using: 'css selector' });
  const [p, input, box, off, hidden, under] = [await on('#p'), await on('#i'), await on('#c'), await on('#d'), await on('#h'), await on('#under')];
  for (const what of ['text', 'name', 'rect', 'enabled', 'selected', 'displayed', 'computedrole', 'computedlabel', 'attribute/title',
    'attribute/missing', 'attribute/a%20b', 'property/className', 'property/missing', 'css/color', 'css/missing']) {
    await get(`/element/${p}/${what}`);
  }
  await get(`/element/${box}/selected`);
  await get(`/element/${off}/enabled`);
  await post('from an element', `/element/${p}/element`, { using: 'css selector', value: 'b' });
  await post('all from an element', `/element/${p}/elements`, { using: 'css selector', value: 'b' });
  await post('from no element', '/element/none/element', { using: 'css selector', value: 'b' });
  await post('click', `/element/${box}/click`, {});
  await get(`/element/${box}/selected`);
  await post('click what is covered', `/element/${under}/click`, {});
  await post('click what is hidden', `/element/${hidden}/click`, {});
  await post('type', `/element/${input}/value`, { text: 'Grüße 漢字' });
  await get(`/element/${input}/property/value`);
  await post('type what is no text', `/element/${input}/value`, { text: 5 });
  await post('type into what is off', `/element/${off}/value`, { text: 'x' });
  await post('clear', `/element/${input}/clear`, {});
  await post('clear a paragraph', `/element/${p}/clear`, {});
  await post('select', `/element/${await on('#o1')}/click`, {});
  await get(`/element/${await on('#s')}/property/value`);
  await post('a file that is not there', `/element/${await on('#f')}/value`, { text: '/nonexistent/file' });
  await get('/element/active');
  await get(`/element/${p}/screenshot`);
  await get(`/element/${hidden}/screenshot`);
  await post('refresh', '/refresh', {});
  await get(`/element/${p}/text`);
  await post('click what is stale', `/element/${p}/click`, {});
  await get('/element/none/text');
}

async function shadows() {
  await page('<div id=host></div><div id=none></div>');
  await run('a shadow', "document.querySelector('#host').attachShadow({mode: 'open'}).innerHTML = '<i>in</i><i>2</i>'");
  const found = await get(`/element/${await on('#host')}/shadow`);
  const root = found?.[SHADOW] ?? 'none';
  await get(`/element/${await on('#none')}/shadow`);
  await post('in the shadow', `/shadow/${root}/element`, { using: 'css selector', value: 'i' });
  await post('all in the shadow', `/shadow/${root}/elements`, { using: 'css selector', value: 'i' });
  await post('nothing in the shadow', `/shadow/${root}/element`, { using: 'css selector', value: 'u' });
  await run('host is gone', "document.querySelector('#host').remove()");
  await post('in a detached shadow', `/shadow/${root}/element`, { using: 'css selector', value: 'i' });
  await post('in no shadow', '/shadow/none/element', { using: 'css selector', value: 'i' });
}

async function scripts() {
  await page('<p id=p>text</p>');
  for (const [name, script, args] of [
    ['a number', 'return 1.5'], ['nothing', ''], ['unicode', 'return "\\ud83e\\udd80 \\u0000 \\u2028"'], ['a lone half', 'return "\\ud800"'],
    ['nested', 'return {a: [1, {b: null}], c: undefined}'], ['an element', 'return document.querySelector("p")'],
    ['elements', 'return document.querySelectorAll("p")'], ['a window', 'return window'], ['a function', 'return () => 1'],
    ['a promise', 'return Promise.resolve(7)'], ['a refusal', 'return Promise.reject(new Error("no"))'],
    ['NaN', 'return NaN'], ['a date', 'return new Date(0)'], ['a cycle', 'const a = {}; a.a = a; return a'],
    ['an error', 'throw new TypeError("thrown")'], ['no JavaScript', 'return }'],
    ['arguments', 'return [...arguments].reverse()', [1, 'ü', null, { a: [true] }]],
    ['something large', `return 'x'.repeat(${LARGE})`],
  ]) {
    await run(name, script, args);
  }
  await run('a large argument', 'return arguments[0].length', ['y'.repeat(LARGE)]);
  await run('no element as an argument', 'return 1', [{ [ELEMENT]: 'none' }]);
  await post('no script', '/execute/sync', { args: [] });
  await post('no arguments', '/execute/sync', { script: 'return 1' });
  await post('later', '/execute/async', { script: 'setTimeout(arguments[0], 20, 5)', args: [] });
  await post('patience', '/timeouts', { script: 150 });
  await post('never', '/execute/async', { script: '', args: [] });
  await run('too long', 'return new Promise(() => {})');
  await post('patience', '/timeouts', { script: 5000 });
}

async function windows() {
  const first = await get('/window', { look: (id) => (note(id, 'window'), id) });
  await get('/window/handles');
  for (const type of ['tab', 'window', 'nonsense']) {
    const made = await post(`new ${type}`, '/window/new', { type }, { look: (value) => (note(value.handle, 'window'), value) });
    if (!made?.handle) continue;
    await post('to it', '/window', { handle: made.handle });
    await post('navigate', '/url', { url: `${site}/tab/1` });
    await get('/title');
    await del('/window');
    await get('/title');
    await del('/window');
    await post('back to the first', '/window', { handle: first });
  }
  await post('to no window', '/window', { handle: 'none' });
  await post('to nothing', '/window', {});
  await get('/window/handles');
  await post('rect', '/window/rect', { x: 0, y: 0, width: 900, height: 700 });
  await get('/window/rect');
  await post('no rect', '/window/rect', { width: 'wide' });
}

async function frames() {
  await page('<iframe id=f srcdoc="<p id=inner>inner</p>"></iframe><p id=outer></p>');
  await post('patience', '/timeouts', { implicit: 2000 });
  await post('by number', '/frame', { id: 0 });
  await find('#inner');
  await post('less patience', '/timeouts', { implicit: 0 });
  await find('#outer');
  await post('parent', '/frame/parent', {});
  const frame = await find('#f');
  await post('by element', '/frame', { id: frame });
  await post('top', '/frame', { id: null });
  await post('no such frame', '/frame', { id: 9 });
  await post('a frame by name', '/frame', { id: 'name' });
}

async function cookies() {
  await post('navigate', '/url', { url: `${site}/tab/3` });
  const set = (name, cookie) => post(name, '/cookie', { cookie });
  await set('cookie', { name: 'a', value: 'b=c; d"', path: '/' });
  await set('cookie', { name: 'flavour', value: 'oat', httpOnly: true, sameSite: 'Lax' });
  await set('a foreign domain', { name: 'a', value: 'b', domain: 'elsewhere.example' });
  await set('no value', { name: 'a' });
  await set('an expiry that is none', { name: 'a', value: 'b', expiry: 'never' });
  await get('/cookie', { look: (list) => list.sort((one, two) => (one.name < two.name ? -1 : 1)) });
  await get('/cookie/flavour');
  await get('/cookie/missing');
  await get('/cookie/a%2Fb%20c');
  await del('/cookie/a');
  await del('/cookie');
  // WebKit's driver answers before its browser has deleted them.
  for (let look = 0; look < 100; look += 1) {
    const { text } = await exchange('GET', `/session/${session}/cookie`);
    if (JSON.parse(text).value.length === 0) break;
  }
  await get('/cookie');
}

async function actions() {
  await page(`<input id=i autofocus><div id=d style="width:200px;height:100px">x</div><div style="height:3000px"></div><script></script>`);
  await run('listen', `window.seen = []; for (const name of ['keydown', 'click', 'dblclick', 'contextmenu', 'pointerdown', 'touchstart', 'wheel'])
    addEventListener(name, (event) => seen.push(name + ':' + (event.key ?? event.pointerType ?? event.deltaY ?? '')), true)`);
  const act = (name, ...sources) => post(name, '/actions', { actions: sources });
  const origin = await find('#d');
  const press = (button = 0) => [{ type: 'pointerDown', button }, { type: 'pointerUp', button }];
  const move = { type: 'pointerMove', duration: 0, x: 1, y: 1, origin };
  await post('click', `/element/${await on('#i')}/click`, {});
  await act('keys', { type: 'key', id: 'k', actions: [{ type: 'keyDown', value: '\uE008' }, { type: 'keyDown', value: 'a' }, { type: 'keyUp', value: 'a' }, { type: 'keyUp', value: '\uE008' }] });
  await act('mouse', { type: 'pointer', id: 'm', actions: [move, ...press(), ...press(), move, ...press(2)] });
  await act('a finger', { type: 'pointer', id: 't', parameters: { pointerType: 'touch' }, actions: [move, ...press()] });
  await act('a pen', { type: 'pointer', id: 'p', parameters: { pointerType: 'pen' }, actions: [move, ...press()] });
  await act('a wheel', { type: 'wheel', id: 'w', actions: [{ type: 'scroll', duration: 0, x: 5, y: 5, deltaX: 0, deltaY: 50, origin: 'viewport' }] });
  await act('a pause', { type: 'none', id: 'n', actions: [{ type: 'pause', duration: 20 }] });
  await act('outside', { type: 'pointer', id: 'm', actions: [{ ...move, x: 100_000, origin: 'viewport' }] });
  await act('no such kind', { type: 'voice', id: 'v', actions: [] });
  await act('no such key', { type: 'key', id: 'k', actions: [{ type: 'keyDown', value: 'two' }] });
  await post('no list', '/actions', { actions: 5 });
  await del('/actions');
  await run('what was seen', 'return seen.filter((entry) => !entry.startsWith("wheel"))');
}

async function dialogs() {
  await page('<p id=p></p>');
  const ask = (script) => run('ask', `setTimeout(() => { window.answer = ${script} })`);
  const said = () => run('answer', 'return String(window.answer)');
  await get('/alert/text');
  await post('nothing to accept', '/alert/accept', {});
  for (const [script, ...does] of [
    ['alert("look 漢字")', ['/alert/dismiss']],
    ['confirm("sure?")', ['/alert/accept']],
    ['confirm("sure?")', ['/alert/dismiss']],
    ['prompt("name?", "x")', ['/alert/text', { text: 'Ädä' }], ['/alert/accept']],
  ]) {
    await ask(script);
    for (let at = 0; at < 100; at += 1) {
      const { reply } = await exchange('GET', `/session/${session}/alert/text`);
      if (reply.statusCode === 200) break;
      await new Promise((wake) => setTimeout(wake, 20));
    }
    await get('/alert/text');
    for (const [path, body = {}] of does) await post('dialog', path, body);
    await said();
  }
  await run('a dialog in the way', 'alert("in the way")');
  await get('/title');
  await get('/title');
}

async function pictures() {
  await post('navigate', '/url', { url: `${site}/paint` });
  await get('/screenshot');
  await post('print', '/print', {});
  await post('print', '/print', { orientation: 'landscape', scale: 0.5, pageRanges: ['1'], background: true });
  await post('no print', '/print', { scale: 50 });
}

async function wire() {
  await get('/nonsense');
  await post('no such command', '/nonsense', {});
  await step('the wrong method', 'GET', '/refresh');
  await step('the wrong method', 'PUT', '/url', {});
  await post('no JSON', '/url', '{"url": ');
  await post('a list', '/url', '[]');
  await post('null', '/url', 'null');
  await post('nothing at all', '/refresh', '');
  await post('in pieces', '/execute/sync', { script: 'return arguments[0].length', args: ['z'.repeat(200_000)] }, { headers: { chunked: true } });
  await step('a body with a GET', 'GET', '/title', {});
  await get('//session/00000000-0000-4000-8000-000000000000/title', { ours: true });
}

async function last() {
  // Closing the last window ends the session.
  for (const handle of (await get('/window/handles')) ?? []) {
    await post('to it', '/window', { handle });
    await del('/window');
  }
  await get('/title', { ours: true });
}

await open();
for (const chapter of [navigation, elements, shadows, scripts, windows, frames, cookies, actions, dialogs, pictures, wire, last]) await chapter();
process.stdout.write(`${JSON.stringify(results)}\n`, () => process.exit(0));
