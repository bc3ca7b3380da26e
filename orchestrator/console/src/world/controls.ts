// Ways to look around: dragging, pinching, the wheel, keys, and buttons that also work while they are held down.

import { find } from '../shared/dom';
import { Camera } from './camera';
import { horizontalAngle, type Point, type Size } from './view';

const HOLD = 350;
/** Degrees a second, while a button is held down. */
const SPEED = 30;
/** Between two steps of a held button where the visitor wants no motion. */
const STEP = 600;
const CLOSER = 0.8;
const FURTHER = 1 / CLOSER;

const ARROWS: Record<string, readonly [right: number, up: number]> = {
  left: [-1, 0],
  right: [1, 0],
  up: [0, 1],
  down: [0, -1],
};

export function buttons(camera: Camera): void {
  for (const [id, [right, up]] of Object.entries(ARROWS)) hold(find(id), camera, right, up);
  find('closer').addEventListener('click', () => camera.zoom(CLOSER));
  find('further').addEventListener('click', () => camera.zoom(FURTHER));
  find('home').addEventListener('click', () => camera.home());
}

/** A click is one step; holding the button down goes on until it is let go. */
function hold(button: HTMLElement, camera: Camera, right: number, up: number): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let frame = 0;
  let held = false;
  const stop = () => {
    clearTimeout(timer);
    clearInterval(timer);
    cancelAnimationFrame(frame);
  };
  const go = () => {
    held = true;
    if (Camera.still) {
      camera.step(right, up);
      timer = setInterval(() => camera.step(right, up), STEP);
      return;
    }
    let last = performance.now();
    const move = (now: number) => {
      const way = (SPEED * Math.max(0, now - last)) / 1000;
      last = now;
      const { yaw, pitch, angle } = camera.view;
      camera.jump({ yaw: yaw + right * way, pitch: pitch + up * way, angle });
      frame = requestAnimationFrame(move);
    };
    frame = requestAnimationFrame(move);
  };
  button.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    held = false;
    stop();
    timer = setTimeout(go, HOLD);
  });
  for (const end of ['pointerup', 'pointerleave', 'pointercancel', 'blur']) button.addEventListener(end, stop);
  button.addEventListener('click', () => {
    if (!held) camera.step(right, up);
    held = false;
  });
  button.addEventListener('contextmenu', (event) => event.preventDefault());
}

/** So far a pointer may stray while it clicks. */
const SLACK = 6;

/** The picture follows the pointer, also from on top of a spot. It stops where the pointer stops. */
export function pointers(stage: HTMLElement, within: string, camera: Camera, size: () => Size): void {
  const down = new Map<number, Point>();
  let start: Point | undefined;
  let dragged = false;
  const spread = () => {
    const [a, b] = [...down.values()];
    return a && b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
  };
  stage.addEventListener('pointerdown', (event) => {
    if (event.button !== 0 || !(event.target as Element).closest(within)) return;
    const at = { x: event.clientX, y: event.clientY };
    if (down.size === 0) [start, dragged] = [at, false];
    down.set(event.pointerId, at);
  });
  stage.addEventListener('pointermove', (event) => {
    const before = down.get(event.pointerId);
    if (!before || !start) return;
    const now = { x: event.clientX, y: event.clientY };
    if (!dragged) {
      if (down.size === 1 && Math.hypot(now.x - start.x, now.y - start.y) < SLACK) return;
      dragged = true;
      for (const id of down.keys()) stage.setPointerCapture(id);
    }
    const apart = spread();
    down.set(event.pointerId, now);
    const { yaw, pitch, angle } = camera.view;
    if (down.size > 1) {
      const pinched = spread();
      if (apart > 0 && pinched > 0) camera.jump({ yaw, pitch, angle: angle * (apart / pinched) });
      return;
    }
    // Degrees of one pixel at the picture's centre.
    const shown = size();
    const wide = (horizontalAngle(camera.view, shown) * Math.PI) / 180;
    const scale = (((2 * Math.tan(wide / 2)) / shown.width) * 180) / Math.PI;
    camera.jump({ yaw: yaw - (now.x - before.x) * scale, pitch: pitch + (now.y - before.y) * scale, angle });
  });
  for (const end of ['pointerup', 'pointercancel'] as const) {
    stage.addEventListener(end, (event) => down.delete(event.pointerId));
  }
  // A drag is not a click.
  stage.addEventListener('click', (event) => dragged && event.detail > 0 && event.stopPropagation(), { capture: true });
  stage.addEventListener(
    'wheel',
    (event) => {
      // With Ctrl it enlarges the whole page, for those who need that.
      if (event.ctrlKey) return;
      event.preventDefault();
      const { yaw, pitch, angle } = camera.view;
      camera.jump({ yaw, pitch, angle: angle * Math.exp(Math.max(-100, Math.min(100, event.deltaY)) * 0.0015) });
    },
    { passive: false },
  );
}

/** `elsewhere` says whether keys pressed there do not concern the picture. */
export function keys(camera: Camera, elsewhere: (target: Element) => boolean): void {
  document.addEventListener('keydown', (event) => {
    document.body.dataset['keys'] = '';
    const target = event.target as Element;
    if (event.ctrlKey || event.altKey || event.metaKey || elsewhere(target)) return;
    const arrow = ARROWS[event.key.replace('Arrow', '').toLowerCase()];
    if (event.key.startsWith('Arrow') && arrow) {
      // A key that is held down repeats: small steps then, without easing.
      const { yaw, pitch, angle } = camera.view;
      if (!event.repeat) camera.step(...arrow);
      else if (!Camera.still) camera.jump({ yaw: yaw + arrow[0] * 2, pitch: pitch + arrow[1] * 2, angle });
    } else if (event.key === 'Home' || event.key === 'Escape') camera.home();
    // Signs work only where the focus is on picture or controls: speech input types them by mistake.
    else if (target === document.body) return;
    else if (event.key === '+' || event.key === '=') camera.zoom(CLOSER);
    else if (event.key === '-') camera.zoom(FURTHER);
    else return;
    event.preventDefault();
  });
}
