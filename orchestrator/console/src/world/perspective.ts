// How a flat rectangle looks from the side. Pure.

import { type Direction, type Point, project, type Size, unproject, type View } from './view';

/** The corners of a rectangle, from the upper left one clockwise. */
export type Corners<T> = readonly [T, T, T, T];

/** What carries the unit square to a quadrilateral: x = (a u + b v + c) / (g u + h v + 1), and y likewise. */
export type Perspective = Record<'a' | 'b' | 'c' | 'd' | 'e' | 'f' | 'g' | 'h', number>;

/** Nothing where the corners lie on one line. */
export function perspective([p, q, r, s]: Corners<Point>): Perspective | undefined {
  const [x1, y1, x2, y2] = [q.x - r.x, q.y - r.y, s.x - r.x, s.y - r.y];
  const [sx, sy] = [p.x - q.x + r.x - s.x, p.y - q.y + r.y - s.y];
  const area = x1 * y2 - x2 * y1;
  if (Math.abs(area) < 1e-9) return undefined;
  const [g, h] = [(sx * y2 - x2 * sy) / area, (x1 * sy - sx * y1) / area];
  return { a: q.x - p.x + g * q.x, b: s.x - p.x + h * s.x, c: p.x, d: q.y - p.y + g * q.y, e: s.y - p.y + h * s.y, f: p.y, g, h };
}

/** Where a place of the unit square goes. */
export function carry({ a, b, c, d, e, f, g, h }: Perspective, u: number, v: number): Point {
  const depth = g * u + h * v + 1;
  return { x: (a * u + b * v + c) / depth, y: (d * u + e * v + f) / depth };
}

/** The same as a style sheet's transform, of a box that has this size. */
export function transform({ a, b, c, d, e, f, g, h }: Perspective, { width, height }: Size): string {
  const columns = [a / width, d / width, 0, g / width, b / height, e / height, 0, h / height, 0, 0, 1, 0, c, f, 0, 1];
  return `matrix3d(${columns.map((value) => value.toFixed(9)).join(',')})`;
}

/** The directions in which the cells of a rectangle lie, row by row. Nothing of one that fills half of the sphere. */
export function cells(corners: Corners<Direction>, count: number): Direction[] | undefined {
  const view: View = { ...corners[0], angle: 90 };
  const size = { width: 1, height: 1 };
  const seen = corners.map((corner) => project(corner, view, size));
  const found = seen.every((point) => point !== undefined) && perspective(seen as unknown as Corners<Point>);
  if (!found) return undefined;
  return Array.from({ length: count * count }, (_, at) => {
    const [u, v] = [((at % count) + 0.5) / count, (Math.floor(at / count) + 0.5) / count];
    return unproject(carry(found, u, v), view, size);
  });
}
