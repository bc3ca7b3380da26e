// The page of a live session.

import { CaptchaBanner } from './captcha';
import { Connection, type End } from './connection';
import { DisplayPicture } from './display';
import { FramesPicture } from './frames';
import { Keys } from './keys';
import type { Picture } from './picture';
import type { Hello, ServerMessage, State } from './protocol';
import { Zoom } from './zoom';

function find<E extends HTMLElement>(id: string): E {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element as E;
}

const button = (id: string) => find<HTMLButtonElement>(id);
const [stage, screen, card, address] = [find('stage'), find('screen'), find('card'), find<HTMLInputElement>('address')];
const [tabs, clip, clipText] = [find<HTMLSelectElement>('title'), find('clip'), find<HTMLTextAreaElement>('clip-text')];
const [actions, more] = [find('actions'), button('more')];
const given = document.body.dataset;
const TOAST = 4000;
/** Less time left than this stands out, in milliseconds. */
const SHORT = 60_000;

let hello: Hello | undefined;
let state: State | undefined;
let picture: Picture | undefined;
let chosen: string | null = null;
let endsAt: number | undefined;
let over = false;
/** Whether the viewer wants the view's own tabs and address beside the browser's. */
let asked = given['bar'] === 'true';

// --- What is shown where there is no picture ----------------------------------------------------------------------------

const HEADINGS: Record<string, string> = {
  ended: 'The session has ended',
  failed: 'The session has failed',
  unknown: 'No such session',
  denied: 'No access',
  unavailable: 'Not reachable',
  wait: 'Connecting',
  lost: 'Connection lost',
};

const STATUS: Record<string, string> = { ended: 'Ended', failed: 'Failed', unknown: 'Not found', unavailable: 'Unavailable' };

function showCard(kind: string, text: string): void {
  card.hidden = false;
  card.dataset['state'] = kind;
  find('card-title').textContent = HEADINGS[kind] ?? kind;
  find('card-text').textContent = text;
  button('again').hidden = kind !== 'unavailable';
}

function setStatus(tone: 'good' | 'wait' | 'bad' | 'over', text: string): void {
  find('status').dataset['tone'] = tone;
  find('status-text').textContent = text;
}

function finish(end: Omit<End, 'state'> & { state: string }): void {
  over = true;
  drop();
  // The last picture stays, faded.
  stage.dataset['lost'] = 'true';
  stage.dataset['acting'] = 'false';
  setStatus(end.state === 'failed' ? 'bad' : end.state === 'unavailable' ? 'wait' : 'over', STATUS[end.state] ?? 'No access');
  showCard(end.state, end.message);
  if (end.recording) void showRecording();
  for (const id of ['time', 'paused', 'history', 'place', 'tools', 'clip', 'captcha']) find(id).hidden = true;
  find('keys').tabIndex = -1;
  document.title = HEADINGS[end.state] ?? 'Live session';
}

/** Links to what was recorded. The address of this page opens that as well. */
async function showRecording(): Promise<void> {
  const query = new URLSearchParams({ token: given['token'] ?? '' });
  const reply = await fetch(`stream/recording?${query}`).catch(() => undefined);
  if (!reply?.ok) return;
  const { parts } = (await reply.json()) as { parts: { name: string }[] };
  const links = parts.map(({ name }, at) => {
    const link = document.createElement('a');
    link.href = `stream/recording/${encodeURIComponent(name)}?${query}`;
    link.textContent = parts.length === 1 ? 'Watch the recording' : `Recording, part ${at + 1}`;
    return link;
  });
  find('card-links').replaceChildren(...links);
  find('card-links').hidden = links.length === 0;
}

function drop(): void {
  picture?.close();
  picture = undefined;
}

let toastTimer = 0;
function toast(text: string): void {
  const element = find('toast');
  element.textContent = text;
  element.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = window.setTimeout(() => (element.hidden = true), TOAST);
}

// --- The connection -----------------------------------------------------------------------------------------------------

const connection = new Connection(given['token'] ?? '', given['actions'] === 'true', {
  received,
  picture: (bytes) => picture?.take(bytes),
  lost: (full) => {
    drop();
    setStatus('wait', full ? 'Waiting' : 'Reconnecting');
    stage.dataset['lost'] = 'true';
    showCard('wait', full ? 'As many people watch this session as may. Trying again.' : 'The connection was lost. Trying again.');
    find('card-title').textContent = full ? 'No place is free' : 'Reconnecting';
  },
  over: finish,
});

function received(message: ServerMessage): void {
  switch (message.type) {
    case 'hello':
      return begin(message);
    case 'state':
      state = message;
      endsAt = Date.now() + message.time_left;
      tick();
      return render();
    case 'clipboard':
      return copied(message.text);
    case 'refused':
      toast(message.message);
      // The choice that was not carried out disappears.
      return render();
    default:
  }
}

function begin(message: Hello): void {
  hello = message;
  drop();
  screen.replaceChildren();
  const shown = () => {
    stage.dataset['picture'] = 'true';
    stage.dataset['lost'] = 'false';
    card.hidden = true;
    renderActions();
  };
  picture =
    message.picture === 'display'
      ? new DisplayPicture(screen, connection, message.text, shown, copied)
      : new FramesPicture(screen, connection, shown);
  if (chosen) connection.send({ type: 'tab', id: chosen });
}

// --- Who has the control ------------------------------------------------------------------------------------------------

const mine = () => hello !== undefined && state?.holder === hello.viewer;
const coarse = () => matchMedia('(pointer: coarse)').matches;
const free = () => state?.holder === null;

/** Gives a button its label, which is its tooltip where there is no room for it. */
function label(id: string, text: string): void {
  const span = button(id).querySelector('span');
  if (span) span.textContent = text;
  button(id).title = text;
}

function render(): void {
  if (!state || !hello || over) return;
  const acting = hello.may_act && mine();
  stage.dataset['acting'] = String(acting);
  // Where nobody has the control, the first touch of the picture takes it.
  if (picture) picture.acting = hello.may_act && (mine() || free());
  setStatus(state.status === 'running' ? 'good' : 'wait', state.status === 'running' ? 'Live' : 'Not reachable');

  const control = button('control');
  control.hidden = !hello.may_act;
  label('control', acting ? 'Give back control' : 'Take control');
  control.classList.toggle('main', !acting);
  const pause = button('pause');
  pause.hidden = !acting;
  pause.setAttribute('aria-pressed', String(state.paused));
  label('pause', state.paused ? 'Resume client' : 'Pause client');
  find('paused').hidden = !state.paused;
  button('clipboard').hidden = !acting;
  // By keyboard alone the picture is reached, and left by F8, only while there is something to do in it.
  find('keys').tabIndex = acting ? 0 : -1;
  button('keyboard').hidden = !acting || !coarse();
  if (!acting) openClip(false);

  const watching = state.viewers === 1 ? 'Only you are watching' : `${state.viewers} are watching`;
  const who = mine()
    ? `You have control${state.paused ? ', the client is paused' : ''}${coarse() ? '' : '. F8 leaves the picture'}`
    : state.holder !== null
      ? `Viewer ${state.holder} has control${state.paused ? ', the client is paused' : ''}`
      : hello.may_act ? `${coarse() ? 'Tap' : 'Click'} the picture to take control` : 'View only';
  const line = `${watching} · ${who}`;
  if (find('who').textContent !== line) find('who').textContent = line;

  captchaBanner.render(state, hello.may_act, acting, chosen ?? state.tabs[0]?.id);
  // The browser's own are in the picture: another row of them would take room from it.
  const bare = hello.bars && !asked;
  find('history').hidden = !hello.may_act || bare;
  find('place').hidden = bare;
  find('bar').dataset['bare'] = String(bare);
  button('bars').hidden = !hello.bars || !hello.may_act;
  button('bars').setAttribute('aria-pressed', String(asked));
  for (const id of ['back', 'forward', 'reload']) button(id).disabled = !acting;
  address.readOnly = !acting;
  renderTabs(state, hello, acting);
  renderActions();
}

/** The buttons that depend on this screen, and the menu, which is needed where there is any of them. */
function renderActions(): void {
  button('zoom').hidden = stage.dataset['picture'] === 'false' || !zoom.useful;
  button('zoom').setAttribute('aria-pressed', String(zoom.zoomed));
  label('zoom', zoom.zoomed ? 'Zoom out' : 'Zoom in');
  more.classList.toggle('needed', actions.querySelector('button:not([hidden])') !== null);
}

function renderTabs({ tabs: open }: State, { picture: kind, bars }: Hello, acting: boolean): void {
  if (chosen && !open.some((tab) => tab.id === chosen)) chosen = null;
  const current = open.find((tab) => tab.id === chosen) ?? open[0];
  const title = current ? current.title || current.url || 'Untitled' : '';
  const choice = open.length > 1 && !(bars && !asked);
  // A display shows all who watch the same tab: there, to choose one is for who has the control.
  const frames = kind === 'frames';
  tabs.hidden = !choice;
  tabs.disabled = !frames && !acting;
  find('one-title').hidden = choice;
  find('one-title').textContent = title;
  if (choice) {
    const options = open.map((tab) => new Option(tab.title || tab.url || 'Untitled', tab.id));
    if (frames) options.unshift(new Option('Tab in front', ''));
    const same = tabs.options.length === options.length && options.every((option, at) => tabs.options[at]?.text === option.text && tabs.options[at]?.value === option.value);
    if (!same) tabs.replaceChildren(...options);
    tabs.value = frames ? (chosen ?? '') : (open[0]?.id ?? '');
    const front = frames ? tabs.options[0] : undefined;
    if (front) front.text = chosen ? 'Tab in front' : title;
  }
  const url = current?.url ?? '';
  // Setting the same value would still take a selection away in some browsers.
  if ((document.activeElement !== address || address.readOnly) && address.value !== url) address.value = url;
  address.hidden = open.length === 0;
  find('one-title').title = title;
  document.title = title || 'Live session';
}

function toggleControl(take: boolean): void {
  connection.send({ type: 'control', take });
  if (take) keys.focus();
}

button('control').addEventListener('click', () => toggleControl(!mine()));
button('pause').addEventListener('click', () => connection.send({ type: 'pause', on: !state?.paused }));
for (const to of ['back', 'forward', 'reload'] as const) {
  button(to).addEventListener('click', () => connection.send({ type: 'go', to }));
}
find<HTMLFormElement>('place').addEventListener('submit', (event) => {
  event.preventDefault();
  const typed = address.value.trim();
  if (!typed || address.readOnly) return;
  const local = /^(localhost|[\d.]+|\[[\da-f:]+\])(:|\/|$)/i.test(typed);
  const url = /^[a-z][a-z\d+.-]*:(?!\d)/i.test(typed) ? typed : `${local ? 'http' : 'https'}://${typed}`;
  connection.send({ type: 'open', url });
  keys.focus();
});
tabs.addEventListener('change', () => showTab(tabs.value || null));
function showTab(id: string | null): void {
  connection.send({ type: 'tab', id });
  // A display says itself when that tab is in front.
  if (hello?.picture !== 'frames') return;
  chosen = id;
  render();
}
const captchaBanner = new CaptchaBanner(connection, showTab);

// One click selects the whole address; a second one places the cursor.
let addressFocused = false;
address.addEventListener('pointerdown', () => (addressFocused = document.activeElement === address));
address.addEventListener('click', () => {
  if (!addressFocused && address.selectionStart === address.selectionEnd) address.select();
});

// --- The menu and the zoom ----------------------------------------------------------------------------------------------

function openMenu(open: boolean): void {
  if (!open && actions.contains(document.activeElement) && more.offsetParent) more.focus();
  actions.dataset['open'] = String(open);
  more.setAttribute('aria-expanded', String(open));
}

more.addEventListener('click', () => openMenu(actions.dataset['open'] !== 'true'));
actions.addEventListener('click', () => openMenu(false));
find('tools').addEventListener('keydown', (event) => event.key === 'Escape' && openMenu(false));
document.addEventListener('pointerdown', (event) => {
  if (!find('tools').contains(event.target as Node)) openMenu(false);
});

const zoom = new Zoom(find('view'), screen, () => picture?.acting ?? false, () => picture?.cancelTouches?.(), renderActions);
button('zoom').addEventListener('click', () => zoom.toggle());

// --- Keys and clipboard -------------------------------------------------------------------------------------------------

const keys = new Keys(find<HTMLTextAreaElement>('keys'), () => picture, () => button('control').focus());

// Before the picture gets the event: the daemon accepts input only from the viewer who has control.
screen.addEventListener(
  'pointerdown',
  (event) => {
    if (!hello?.may_act) return;
    if (free()) connection.send({ type: 'control', take: true });
    else if (!mine()) toast(`Viewer ${state?.holder} has control`);
    // A touch must not bring up the keyboard; there is a button for that.
    if (event.pointerType !== 'touch' && (mine() || free())) setTimeout(() => keys.focus());
  },
  { capture: true },
);

function openClip(open: boolean): void {
  if (!open && clip.contains(document.activeElement)) (button('clipboard').offsetParent ? button('clipboard') : more).focus();
  clip.hidden = !open;
  button('clipboard').setAttribute('aria-expanded', String(open));
  if (open) clipText.focus();
}

function copied(text: string): void {
  if (!text || !mine()) return;
  clipText.value = text;
  // Only where this page is served securely; the panel is there for the rest.
  navigator.clipboard?.writeText(text).then(
    () => toast('Copied'),
    () => toast('Copied: see Clipboard'),
  );
}

button('clipboard').addEventListener('click', () => openClip(Boolean(clip.hidden)));
button('clip-close').addEventListener('click', () => openClip(false));
button('clip-copy').addEventListener('click', () => picture?.copy());
button('clip-paste').addEventListener('click', () => {
  picture?.paste(clipText.value);
  openClip(false);
  keys.focus();
});
clip.addEventListener('keydown', (event) => event.key === 'Escape' && openClip(false));
button('keyboard').addEventListener('click', () => keys.focus());

// --- The rest -----------------------------------------------------------------------------------------------------------

button('bars').addEventListener('click', () => {
  asked = !asked;
  render();
});

const full = button('full');
full.hidden = !document.fullscreenEnabled;
full.addEventListener('click', () => {
  if (document.fullscreenElement) void document.exitFullscreen();
  else void document.documentElement.requestFullscreen();
});
document.addEventListener('fullscreenchange', () => {
  label('full', document.fullscreenElement ? 'Leave full screen' : 'Full screen');
});

function tick(): void {
  if (endsAt === undefined || over) return;
  const left = Math.max(0, endsAt - Date.now());
  const pad = (number: number) => String(number).padStart(2, '0');
  const seconds = Math.ceil(left / 1000);
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  find('time').hidden = false;
  find('time-left').textContent = h > 0 ? `${h}:${pad(m)}:${pad(s)}` : `${m}:${pad(s)}`;
  find('time').dataset['tone'] = left < SHORT ? 'wait' : '';
}

button('again').addEventListener('click', () => location.reload());
setInterval(tick, 1000);
const beginning = given['state'] ?? 'live';
stage.dataset['picture'] = 'false';
for (const id of ['full', 'clipboard', 'keyboard', 'bars']) label(id, button(id).textContent ?? '');
if (beginning === 'live') {
  showCard('wait', 'The picture is on its way.');
  connection.connect();
} else {
  finish({ state: beginning, message: find('card-text').textContent ?? '', recording: given['recording'] === 'true' });
  // The container engine may answer again by itself.
  if (beginning === 'unavailable') setTimeout(() => location.reload(), 5000);
}
