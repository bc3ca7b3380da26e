// Where the visitor looks, and where a direction of the scene lies on the screen. Pure; angles are in degrees.

export interface Direction {
  yaw: number;
  pitch: number;
}

/** The centre of the screen, and how wide an angle the screen's longer side shows. */
export interface View extends Direction {
  angle: number;
}

export interface Size {
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

export interface Extent extends Direction {
  width: number;
  height: number;
}

export const MAX_PITCH = 60;
export const MIN_ANGLE = 35;
export const MAX_ANGLE = 100;
export const HOME_ANGLE = 85;

const RADIANS = Math.PI / 180;

/** The same yaw, from -180 to 180. */
export function wrap(yaw: number): number {
  return ((((yaw + 180) % 360) + 360) % 360) - 180;
}

export function limit(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

export function limited(view: View): View {
  return {
    yaw: wrap(view.yaw),
    pitch: limit(view.pitch, -MAX_PITCH, MAX_PITCH),
    angle: limit(view.angle, MIN_ANGLE, MAX_ANGLE),
  };
}

/** The angle that the screen's width shows. */
export function horizontalAngle(view: View, { width, height }: Size): number {
  if (width >= height) return view.angle;
  return (2 * Math.atan((Math.tan((view.angle * RADIANS) / 2) * width) / height)) / RADIANS;
}

/** The view that lies the given part of the way between two others, by the shorter turn. */
export function between(from: View, to: View, part: number): View {
  const mix = (a: number, b: number) => a + (b - a) * part;
  return {
    yaw: wrap(from.yaw + wrap(to.yaw - from.yaw) * part),
    pitch: mix(from.pitch, to.pitch),
    angle: mix(from.angle, to.angle),
  };
}

/** The angle between two directions. */
export function separation(a: Direction, b: Direction): number {
  const [p, q] = [a.pitch * RADIANS, b.pitch * RADIANS];
  const cosine = Math.sin(p) * Math.sin(q) + Math.cos(p) * Math.cos(q) * Math.cos((a.yaw - b.yaw) * RADIANS);
  return Math.acos(limit(cosine, -1, 1)) / RADIANS;
}

/** Where a direction lies on the screen of a camera. Nothing if that is behind the camera. */
export function project(direction: Direction, view: View, size: Size): Point | undefined {
  const [turn, pitch, tilt] = [(direction.yaw - view.yaw) * RADIANS, direction.pitch * RADIANS, view.pitch * RADIANS];
  const x = Math.sin(turn) * Math.cos(pitch);
  const ahead = Math.cos(turn) * Math.cos(pitch);
  const y = Math.sin(pitch) * Math.cos(tilt) - ahead * Math.sin(tilt);
  const z = Math.sin(pitch) * Math.sin(tilt) + ahead * Math.cos(tilt);
  if (z < 0.1) return undefined;
  const focal = size.width / 2 / Math.tan((horizontalAngle(view, size) * RADIANS) / 2);
  return { x: size.width / 2 + (focal * x) / z, y: size.height / 2 - (focal * y) / z };
}

/** The direction of a place on the screen of a camera. */
export function unproject(point: Point, view: View, size: Size): Direction {
  const focal = size.width / 2 / Math.tan((horizontalAngle(view, size) * RADIANS) / 2);
  const [x, y, tilt] = [(point.x - size.width / 2) / focal, (size.height / 2 - point.y) / focal, view.pitch * RADIANS];
  const [up, ahead] = [y * Math.cos(tilt) + Math.sin(tilt), Math.cos(tilt) - y * Math.sin(tilt)];
  return { yaw: wrap(view.yaw + Math.atan2(x, ahead) / RADIANS), pitch: Math.atan2(up, Math.hypot(x, ahead)) / RADIANS };
}

/** How a flat, wide picture lies behind the screen: its size, and the place of its left upper corner. */
export function strip(view: View, size: Size): { scale: number; left: number; top: number } {
  // Never smaller than the screen is high.
  const scale = Math.max(size.width / horizontalAngle(view, size), size.height / 180);
  const top = limit(size.height / 2 - (90 - view.pitch) * scale, size.height - 180 * scale, 0);
  return { scale, left: size.width / 2 - (view.yaw + 180) * scale, top };
}

/** Where a direction lies on such a picture. */
export function projectFlat(direction: Direction, view: View, size: Size): Point {
  const { scale, top } = strip(view, size);
  return { x: size.width / 2 + wrap(direction.yaw - view.yaw) * scale, y: top + (90 - direction.pitch) * scale };
}

/** An item other than the current one must be this much nearer to the centre, so that the two do not take turns. */
const STICKINESS = 3;

/** The item that the visitor looks at, if they look at one. */
export function inView<T extends Extent>(items: readonly T[], view: View, size: Size, current?: T): T | undefined {
  const reach = Math.min(horizontalAngle(view, size), view.angle) * 0.24;
  let best: T | undefined;
  let nearest = Infinity;
  for (const item of items) {
    const away = separation(item, view);
    if (away > reach + Math.max(item.width, item.height) / 4) continue;
    const counted = item === current ? away - STICKINESS : away;
    if (counted < nearest) [best, nearest] = [item, counted];
  }
  return best;
}

/** The view that shows an item whole, and a little closer than usual. */
export function closeUp(item: Extent, size: Size): View {
  const ratio = size.width / Math.max(size.height, 1);
  const wide = ratio >= 1 ? Math.max(item.width, item.height * ratio) : Math.max(item.height, item.width / ratio);
  return limited({ yaw: item.yaw, pitch: item.pitch, angle: Math.min(HOME_ANGLE, Math.max(wide * 2.2, 50)) });
}
