// The page of one scene: waits until there is a picture, then lets the visitor look around in it.

import { find } from '../shared/dom';
import { sentence } from '../shared/text';
import { Camera } from './camera';
import { Caption } from './caption';
import { buttons, keys, pointers } from './controls';
import { Screen } from './picture';
import { Large } from './large';
import { Prints } from './prints';
import { Questions } from './questions';
import { Feed, type Item, placed, type Scene } from './scene';
import { Spots } from './spots';
import { inView, type Size } from './view';

const PLACES: Record<string, string> = { garden: 'the garden', home: 'the living room', porch: 'the porch' };
const PICTURE_PAUSE = 4000;

const base = location.pathname.replace(/\/+$/, '');
const stage = find('stage');
const picture = find('picture');
const size = (): Size => ({ width: stage.clientWidth, height: stage.clientHeight });

const camera = new Camera(() => draw());
const screen = new Screen(picture, () => draw());
const prints = new Prints(find('prints'), base, () => draw());
const large = new Large();
const spots = new Spots(find('spots'), camera, size, (item) => large.show(item, prints.source(item) ?? `${base}/${item.picture_url}`));
const caption = new Caption();
const questions = new Questions();

let scene: Scene | undefined;
let current: Item | undefined;
let lost = false;
/** The best picture that is shown or on its way. */
let shown: 'preview' | 'panorama' | undefined;
let faced = false;
let frame = 0;

function draw(): void {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    if (!screen.ready) return;
    const [view, area] = [camera.view, size()];
    screen.render(view, area);
    prints.place(screen, view, area);
    spots.place(screen, view, area);
    current = inView(spots.items, view, area, current);
    caption.set(current);
    questions.setItem(current);
  });
}

// --- The picture --------------------------------------------------------------------------------------------------------

async function load(name: 'preview' | 'panorama'): Promise<void> {
  if (shown === name || shown === 'panorama') return;
  const before = shown;
  shown = name;
  let url = '';
  try {
    const reply = await fetch(`${base}/${name}.jpg`, { cache: 'no-store' });
    if (!reply.ok) throw new Error(reply.statusText);
    url = URL.createObjectURL(await reply.blob());
    const image = new Image();
    image.src = url;
    await image.decode();
    // The better one may have overtaken it.
    if (shown !== name) return URL.revokeObjectURL(url);
    open(image);
  } catch {
    URL.revokeObjectURL(url);
    if (shown !== name) return;
    shown = before;
    lost = true;
    print();
    setTimeout(() => void load(name), PICTURE_PAUSE);
  }
}

let address = '';

function open(image: HTMLImageElement): void {
  const first = !screen.ready;
  lost = false;
  find('picture').hidden = find('spots').hidden = find('controls').hidden = false;
  screen.show(image);
  prints.setPanorama(image);
  URL.revokeObjectURL(address);
  address = image.src;
  if (scene && !faced) {
    faced = true;
    camera.setHome(scene.initial_yaw);
  }
  draw();
  print();
  // So that keys work at once.
  if (first && document.activeElement === document.body) picture.focus({ preventScroll: true });
}

// --- What is going on ---------------------------------------------------------------------------------------------------

const title = find('card-title');

function card(heading: string, text: string, busy: boolean): void {
  write(title, heading);
  write(find('card-text'), text);
  find('spinner').hidden = !busy;
}

/** A live region speaks when it is written to, even the same text. */
function write(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

function print(): void {
  const percent = Math.round((scene?.progress ?? 0) * 100);
  const waiting = scene?.status === 'queued' || scene?.status === 'rendering';
  const place = PLACES[scene?.environment_type ?? ''] ?? 'the place';
  const name = place.replace(/^./, (letter) => letter.toUpperCase());
  if (scene) {
    document.title = name;
    write(find('heading'), `${name}, a picture that surrounds you`);
    questions.setPlace(scene.environment_type, place);
    find('test').hidden = !scene.watermark;
  }
  find('card').hidden = screen.ready;
  const progress = find<HTMLProgressElement>('progress');
  progress.hidden = screen.ready || scene?.status !== 'rendering';
  progress.value = percent;
  if (!screen.ready) {
    if (scene?.status === 'failed') {
      card(`${name} could not be made`, scene.message ? sentence(scene.message) : 'Whoever sent you this link can make a new one.', false);
    } else if (lost) card('The connection is lost', 'This page tries again by itself. Please wait a moment.', true);
    else if (scene?.status === 'queued') card(`${name} is waiting its turn`, 'It appears here by itself.', true);
    else if (scene?.status === 'rendering') card(`${name} is being made`, 'A first picture appears here shortly.', false);
    else card('One moment', scene ? 'The picture is on its way.' : '', true);
  }
  const notice = !screen.ready
    ? ''
    : lost
      ? 'Connection lost. Trying again…'
      : scene?.status === 'failed'
        ? 'A sharper picture could not be made.'
        : waiting
          ? 'A sharper picture is being made'
          : '';
  write(find('notice-text'), notice);
  find('notice-percent').textContent = notice && waiting && !lost ? ` · ${percent} %` : '';
  find('notice').toggleAttribute('data-quiet', !notice);
}

function gone(): void {
  screen.clear();
  prints.clear();
  large.close();
  picture.hidden = find('spots').hidden = find('controls').hidden = true;
  questions.toggle(false);
  find('caption').replaceChildren();
  print();
  document.title = 'Not available';
  find('progress').hidden = true;
  card('This link does not work any more', 'Ask whoever sent it to you for a new one.', false);
}

void new Feed(base, {
  scene(heard) {
    scene = heard;
    lost = false;
    spots.set(placed(heard.items));
    prints.set(placed(heard.items));
    if (heard.panorama) void load('panorama');
    else if (heard.preview) void load('preview');
    print();
    draw();
  },
  lost() {
    lost = true;
    print();
  },
  gone,
}).start();

// --- Controls -----------------------------------------------------------------------------------------------------------

buttons(camera);
pointers(stage, '#picture, .spot', camera, size);
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || !questions.open) return;
  questions.toggle(false);
  event.stopImmediatePropagation();
});
keys(camera, (target) => questions.contains(target) || large.contains(target) || !screen.ready);
new ResizeObserver(draw).observe(stage);

const full = find('full');
full.hidden = !document.fullscreenEnabled;
full.addEventListener('click', () => {
  if (document.fullscreenElement) void document.exitFullscreen();
  else void document.documentElement.requestFullscreen();
});
document.addEventListener('fullscreenchange', () => {
  const leave = Boolean(document.fullscreenElement);
  full.setAttribute('aria-pressed', String(leave));
});
