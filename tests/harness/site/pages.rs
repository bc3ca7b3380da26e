//! The site's pages. Each is as small as what it shows.

pub(super) const INDEX: &str = r#"<!doctype html><title>Test site</title><h1>Test site</h1>
<ul><li><a href=/form>form</a><li><a href=/tab/1 target=_blank>one</a><li><a href=/tab/2 target=_blank>two</a></ul>"#;

pub(super) const FORM: &str = r#"<!doctype html><title>Form</title>
<form method=post action=/form>
<label>Name <input id=name name=name></label>
<select id=colour name=colour><option value=red>Red<option value=green>Green</select>
<label><input id=agree type=checkbox name=agree value=yes> Agree</label>
<button id=send>Send</button></form>"#;

/// There is nothing to paint.
pub(super) const UNPAINTED: &str = r#"<!doctype html><title>Unpainted</title><input style="opacity: 0">"#;

pub(super) const BUTTON: &str = r#"<!doctype html><title>Button</title>
<button id=count onclick="this.textContent = Number(this.textContent) + 1">0</button>"#;

/// One of everything that an agent acts on; what it did stands in the page.
pub(super) const AGENT: &str = r#"<!doctype html><html lang=en><title>Agent</title>
<meta name=author content="Ann Brewer"><style>[hidden] { display: none }</style>
<h1>Tea house</h1><p id=log>nothing yet</p>
<form onsubmit="say('sent ' + name_.value); return false">
<label>Name <input id=name_ onkeydown="keys.textContent = Number(keys.textContent) + 1"></label> <output id=keys>0</output>
<label>Tea <select id=tea onchange="say('tea ' + this.value)"><option value=g>Green<option value=b>Black</select></label>
<label><input id=milk type=checkbox onchange="say('milk ' + this.checked)"> Milk</label></form>
<button onclick="say('clicked ' + event.detail + event.button + event.shiftKey)">Brew</button>
<button onclick="say('answered ' + confirm('Really?'))">Ask</button>
<button onclick="this.remove(); say('gone')">Leave</button>
<button disabled>Never</button>
<div style="position: relative; width: 90px"><button onclick="say('through')">Under</button>
<div style="position: absolute; inset: 0">cover</div></div>
<p onmouseenter="say('hovered')">Hover here</p>
<div id=cup draggable=true style="width: 60px; height: 30px; background: tan"
 ondragstart="event.dataTransfer.setData('text/plain', 'cup')">cup</div>
<div id=table role=group aria-label=Table style="width: 90px; height: 60px; background: silver"
 ondragover="event.preventDefault()" ondrop="event.preventDefault(); say('dropped ' + event.dataTransfer.getData('text/plain'))">table</div>
<input type=file aria-label=Menu onchange="this.files[0].text().then((text) => say('file ' + this.files[0].name + ' ' + text))">
<iframe srcdoc="<button onclick=&quot;this.textContent = 'Poured'&quot;>Pour</button>" title=Frame width=200 height=60></iframe>
<a href=/>Home</a> <a href=/tab/1 target=_blank>Other tab</a>
<script>
const say = (text) => { document.querySelector('#log').textContent = text; };
console.log('brewing'); console.error('boiled over');
fetch('/api/data');
</script></html>"#;

pub(super) const POPUP: &str = r#"<!doctype html><title>Popup</title>
<button id=open onclick="window.open('/child', 'child', 'width=400,height=300')">Open</button>"#;

pub(super) const CHILD: &str = r#"<!doctype html><title>Child</title><p id=child>opened by the other page</p>"#;

pub(super) const UPLOAD: &str = r#"<!doctype html><title>Upload</title>
<form method=post enctype=multipart/form-data action=/upload>
<input id=file type=file name=file><button id=send>Send</button></form>"#;

pub(super) const CONSOLE: &str = r#"<!doctype html><title>Console</title><script>
console.log('plain', 1);
console.warn('careful');
console.error('broken');
setTimeout(() => { throw new Error('thrown on purpose'); });
</script>"#;

pub(super) const FETCH: &str = r#"<!doctype html><title>Fetch</title><p id=data></p><p id=pixel></p><script>
const pixel = new Image();
pixel.onload = () => { document.querySelector('#pixel').textContent = 'loaded'; load(); };
pixel.onerror = () => { document.querySelector('#pixel').textContent = 'blocked'; load(); };
pixel.src = '/pixel.png';
async function load() {
  const data = await (await fetch('/api/data')).json();
  document.querySelector('#data').textContent = data.from;
}
</script>"#;

/// Reports to the site what it sees of its browser: in the page, in an iframe, in a worker, and in its request headers.
pub(super) const PROBE: &str = r#"<!doctype html><title>Probe</title><p id=report></p><script type=module>
const seenMedia = () => ({
  dark: matchMedia('(prefers-color-scheme: dark)').matches,
  light: matchMedia('(prefers-color-scheme: light)').matches,
  reduced: matchMedia('(prefers-reduced-motion: reduce)').matches,
});
const seen = () => ({
  userAgent: navigator.userAgent,
  language: navigator.language,
  languages: [...navigator.languages],
  intl: Intl.DateTimeFormat().resolvedOptions().locale,
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  offset: new Date(2026, 0, 15).getTimezoneOffset(),
  number: (1234.5).toLocaleString(),
  brands: navigator.userAgentData?.brands ?? null,
  platform: navigator.platform,
  webdriver: navigator.webdriver,
});
const top = {
  ...seen(),
  inner: { width: innerWidth, height: innerHeight },
  outer: { width: outerWidth, height: outerHeight },
  screen: { width: screen.width, height: screen.height },
  ratio: devicePixelRatio,
  media: seenMedia(),
};
const message = (source) => new Promise((done) => { source.onmessage = (event) => done(event.data); });
const frame = message(window);
const element = document.createElement('iframe');
element.src = '/frame';
document.body.append(element);
const worker = message(new Worker('/worker.js'));
const shared = message(new SharedWorker('/shared-worker.js').port);
const report = {
  top,
  frame: await frame,
  worker: await worker,
  shared: await shared,
  headers: await (await fetch('/headers')).json(),
};
window.report = report;
document.querySelector('#report').textContent = JSON.stringify(report);
await fetch(location.pathname, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(report),
});
document.title = 'Reported';
</script>"#;

/// Reports to the site what it may do without asking, and where it is.
pub(super) const PERMITTED: &str = r#"<!doctype html><title>Permitted</title><script type=module>
const state = async (name) => {
  try {
    return (await navigator.permissions.query({ name })).state;
  } catch {
    return 'unknown';
  }
};
const names = ['camera', 'clipboard-read', 'clipboard-write', 'geolocation', 'microphone', 'notifications'];
const states = {};
for (const name of names) states[name] = await state(name);
const place = await new Promise((done) => {
  const found = ({ coords }) => done([coords.latitude, coords.longitude, coords.accuracy]);
  navigator.geolocation.getCurrentPosition(found, (error) => done(error.message), { timeout: 8000 });
});
let media = 'none';
if (navigator.mediaDevices) {
  const asked = navigator.mediaDevices.getUserMedia({ video: true, audio: true });
  media = await asked.then(() => 'open', (error) => error.name);
}
const copy = async () => {
  await navigator.clipboard.writeText('copied');
  return navigator.clipboard.readText();
};
const copied = await (location.hash ? copy().catch(String) : 'not tried');
const notification = globalThis.Notification?.permission ?? 'none';
await fetch(location.pathname, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ isSecureContext, states, place, media, copied, notification }),
});
document.body.innerHTML = '<p id=done>done</p>';
</script>"#;

pub(super) const FRAME: &str = r#"<!doctype html><title>Frame</title><script>
parent.postMessage({
  userAgent: navigator.userAgent,
  language: navigator.language,
  languages: [...navigator.languages],
  intl: Intl.DateTimeFormat().resolvedOptions().locale,
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  offset: new Date(2026, 0, 15).getTimezoneOffset(),
  media: {
    dark: matchMedia('(prefers-color-scheme: dark)').matches,
    light: matchMedia('(prefers-color-scheme: light)').matches,
    reduced: matchMedia('(prefers-reduced-motion: reduce)').matches,
  },
}, '*');
</script>"#;

pub(super) const WORKER: &str = r#"
const headers = fetch('/headers').then((reply) => reply.json());
headers.then((seen) => postMessage({
  userAgent: navigator.userAgent,
  language: navigator.language,
  languages: [...navigator.languages],
  intl: Intl.DateTimeFormat().resolvedOptions().locale,
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  offset: new Date(2026, 0, 15).getTimezoneOffset(),
  headers: seen,
}));
"#;

/// A service worker that answers for one path.
pub(super) const SERVICE_WORKER: &str = r"
onfetch = event => {
  if (new URL(event.request.url).pathname === '/from-worker') event.respondWith(new Response('from the worker'));
};
";

pub(super) const SHARED_WORKER: &str = r"
onconnect = ({ ports: [port] }) => port.postMessage({
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  offset: new Date(2026, 0, 15).getTimezoneOffset(),
});
";

pub(super) const ANIMATION: &str = r#"<!doctype html><title>Animation</title>
<style>#box{width:80px;height:80px;background:#07a;position:absolute}</style><div id=box></div><script>
let frames = 0;
(function draw(now) {
  window.frames_drawn = ++frames;
  document.querySelector('#box').style.left = `${Math.round(now / 5) % 600}px`;
  requestAnimationFrame(draw);
})(0);
</script>"#;

/// Takes memory until something stops it.
pub(super) const HOG: &str = r#"<!doctype html><title>Hog</title><script>
const kept = [];
setInterval(() => { kept.push(new Uint8Array(32 << 20).fill(kept.length + 1)); document.title = kept.length; }, 10);
</script>"#;

pub(super) const BLOB: &str = r#"<!doctype html><title>Blob</title><script>
window.blob = 'x'.repeat(16 << 20);
</script>"#;

pub(super) const PAINT: &str = r#"<!doctype html><title>Paint</title>
<style>body{margin:0;background:linear-gradient(90deg,#c30,#07a)}h1{font:64px serif;color:#fff;padding:40px}</style>
<h1>Paint, letters and a gradient</h1><p>The quick brown fox jumps over the lazy dog.</p>"#;

pub(super) const DIALOGS: &str = r#"<!doctype html><title>Dialogs</title>
<button id=alert onclick="alert('look')">Alert</button>
<button id=confirm onclick="document.querySelector('#answer').textContent = confirm('sure?')">Confirm</button>
<p id=answer></p>"#;

/// One colour, and the other one after a click. Its title shows what was typed into it, once Enter is pressed.
pub(super) const TURN: &str = r#"<!doctype html><title>Turned 0</title>
<style>html{height:100%;background:#f00}html.turned{background:#00f}input{font:30px serif;margin:20px}</style>
<input id=typed autofocus><script>
let turns = 0;
const typed = document.querySelector('#typed');
document.onclick = () => {
  document.documentElement.classList.toggle('turned');
  document.title = `Turned ${++turns}`;
  typed.focus();
};
typed.onkeydown = (event) => { if (event.key === 'Enter') document.title = `Typed ${typed.value}`; };
</script>"#;

/// Reports to the site what a person does to it: keys into a field, and below it everything that a pointer can do.
pub(super) const INPUT: &str = r#"<!doctype html><title>Input</title>
<style>
html, body { height: 100%; margin: 0; overflow: hidden; }
#field { position: fixed; left: 20px; top: 20px; width: 90%; height: 50px; font: 26px serif; }
#pad { position: fixed; left: 0; top: 100px; right: 0; bottom: 0; background: #f00; touch-action: none; -webkit-user-select: none; user-select: none; }
#pad.turned { background: #00f; }
</style>
<textarea id=field></textarea><div id=pad></div><script>
const [field, pad] = ['field', 'pad'].map((id) => document.getElementById(id));
const seen = window.seen = { value: '', focused: false, keys: 0, held: [], buttons: 0, clicks: 0, doubles: 0, rights: 0, wheel: 0, touches: 0, drag: [], at: null };
let [busy, again] = [false, false];
async function tell() {
  if (busy) return void (again = true);
  busy = true;
  do {
    again = false;
    await fetch(location.pathname, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...seen, value: field.value }),
    }).catch(() => {});
  } while (again);
  busy = false;
}
const on = (target, types, heard) => types.forEach((type) => target.addEventListener(type, (event) => (heard(event), tell())));
on(document, ['keydown'], (event) => {
  seen.keys++;
  seen.held = [...new Set([...seen.held, event.code])];
});
on(document, ['keyup'], (event) => { seen.held = seen.held.filter((code) => code !== event.code); });
on(field, ['input'], () => {});
on(field, ['focus', 'blur'], (event) => { seen.focused = event.type === 'focus'; });
on(document, ['mousemove', 'mousedown', 'mouseup'], (event) => {
  seen.at = { x: event.clientX, y: event.clientY };
  seen.buttons = event.buttons;
});
on(document, ['mousedown', 'mouseup'], (event) => seen.drag.push(`${event.type} ${event.clientX} ${event.clientY}`));
on(pad, ['click'], () => {
  seen.clicks++;
  pad.classList.toggle('turned');
});
on(pad, ['dblclick'], () => seen.doubles++);
on(pad, ['contextmenu'], (event) => {
  event.preventDefault();
  seen.rights++;
});
on(pad, ['wheel'], (event) => { seen.wheel += event.deltaY; });
on(pad, ['touchstart'], () => seen.touches++);
tell();
</script>"#;

/// Says in `#found` what an earlier visit has left in the browser, leaves the same itself, and says in `#look` how the browser
/// looks. `/kept` is asked for only by a browser without a cached copy of it.
pub(super) const LEFT: &str = r#"<!doctype html><title>Left</title><h1 id=found></h1><p id=look></p><script type=module>
const found = [];
if (document.cookie.includes('left=1')) found.push('cookie');
if (localStorage.left) found.push('localStorage');
if (sessionStorage.left) found.push('sessionStorage');
if (name) found.push('name');
document.cookie = 'left=1; max-age=3600';
localStorage.left = sessionStorage.left = name = '1';
await new Promise((done, failed) => {
  const opening = indexedDB.open('left', 1);
  opening.onupgradeneeded = ({ oldVersion }) => { if (oldVersion === 0) opening.isNew = true; };
  opening.onsuccess = () => { if (!opening.isNew) found.push('indexedDB'); opening.result.close(); done(); };
  opening.onerror = failed;
});
await (await fetch('/kept')).text();
document.querySelector('#look').textContent = [navigator.language, navigator.userAgent, innerWidth, innerHeight].join(' ');
document.querySelector('#found').textContent = found.join(' ') || 'nothing';
</script>"#;

/// Tries every port (`?ports=`) of every host (`?hosts=`) in each way that a page has, and reports to the site which of
/// them answered. The first host and port are the site's own, which have to answer.
pub(super) const PORTS: &str = r#"<!doctype html><title>Ports</title><body><script type=module>
const asked = new URLSearchParams(location.search);
const [hosts, ports] = ['hosts', 'ports'].map((name) => asked.get(name).split(','));
const TIME_LIMIT = 1500;
const within = (work, limit) => Promise.race([work, new Promise((done) => setTimeout(done, limit, false))]);
const session = '{"capabilities":{}}';

const WAYS = {
  fetch: (url) => fetch(url + '/json/version', { mode: 'no-cors' }).then(() => true, () => false),
  post: (url) => fetch(url + '/session', { mode: 'no-cors', method: 'POST', body: session }).then(() => true, () => false),
  websocket: (url) => new Promise((done) => {
    const socket = new WebSocket(url.replace('http', 'ws') + '/session');
    socket.onopen = () => done(true);
    socket.onerror = socket.onclose = () => done(false);
  }),
  image: (url) => new Promise((done) => {
    const image = new Image();
    image.onload = () => done(true);
    image.onerror = () => done(false);
    image.src = url + '/pixel.png';
  }),
};

/** These tell a page nothing; what they did shows in the session. */
function blindly(url) {
  const frame = document.createElement('iframe');
  frame.src = url + '/shutdown';
  const form = document.createElement('form');
  Object.assign(form, { action: url + '/session', method: 'post', enctype: 'text/plain', target: 'answer' });
  const field = document.createElement('input');
  Object.assign(field, { name: '{"capabilities":{},"x":"', value: '"}' });
  form.append(field);
  document.body.append(frame, form);
  form.submit();
  // A window is a process: one name of the container has to do.
  if (url.includes('//127.')) open(url + '/shutdown', '_blank', 'width=200,height=200')?.close();
  navigator.sendBeacon?.(url + '/shutdown');
}

async function byWebRtc(host, ports) {
  if (!self.RTCPeerConnection) return;
  const peer = new RTCPeerConnection({ iceServers: ports.slice(0, 8).map((port) => (
    { urls: `turn:${host}:${port}?transport=tcp`, username: 'GET /shutdown HTTP/1.1', credential: 'x' })) });
  peer.createDataChannel('x');
  await peer.setLocalDescription(await peer.createOffer());
  const other = new RTCPeerConnection();
  await other.setRemoteDescription(peer.localDescription);
  const answer = await other.createAnswer();
  await peer.setRemoteDescription(answer);
  await other.setLocalDescription(answer);
  for (const [index, port] of ports.entries()) {
    const candidate = `candidate:${index} 1 tcp ${1518280447 - index} ${host} ${port} typ host tcptype passive`;
    await peer.addIceCandidate({ candidate, sdpMid: '0' }).catch(() => {});
  }
  await new Promise((done) => setTimeout(done, TIME_LIMIT));
  peer.close();
}

const answer = document.createElement('iframe');
answer.name = 'answer';
document.body.append(answer);
const answered = [];
async function attempt(host, port, limit = TIME_LIMIT) {
  const url = `http://${host}:${port}`;
  if (url !== location.origin) blindly(url);
  await Promise.all(Object.entries(WAYS).map(async ([way, connect]) => {
    try {
      if (await within(connect(url), limit)) answered.push(`${way} ${host}:${port}`);
    } catch {
      // An attempt that throws got no answer.
    }
  }));
}
// The site's own answer first, however long it takes: it shows that the attempts work.
await attempt(hosts[0], ports[0], 30_000);
await Promise.all(hosts.flatMap((host) => [
  ...ports.map((port) => `${host}:${port}` === location.host || attempt(host, port)),
  byWebRtc(host, ports).catch(() => {}),
]));
await fetch(location.pathname, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(answered.sort()),
});
document.title = 'Done';
</script>"#;
