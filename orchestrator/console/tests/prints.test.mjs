import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lightOn, means } from '../src/world/light.ts';
import { carry, cells, perspective, transform } from '../src/world/perspective.ts';
import { project, unproject } from '../src/world/view.ts';

const near = (a, b, by = 1e-6) => assert.ok(Math.abs(a - b) < by, `${a} is not ${b}`);
const corners = [{ x: 10, y: 20 }, { x: 210, y: 40 }, { x: 190, y: 180 }, { x: 30, y: 150 }];

test('a rectangle goes to its corners, and its middle to where the diagonals cross', () => {
  const found = perspective(corners);
  for (const [at, [u, v]] of [[0, 0], [1, 0], [1, 1], [0, 1]].entries()) {
    const { x, y } = carry(found, u, v);
    near(x, corners[at].x);
    near(y, corners[at].y);
  }
  const middle = carry(found, 0.5, 0.5);
  const side = ([p, q]) => (q.x - p.x) * (middle.y - p.y) - (q.y - p.y) * (middle.x - p.x);
  near(side([corners[0], corners[2]]), 0);
  near(side([corners[1], corners[3]]), 0);
});

test('the style sheet says the same of a box in pixels', () => {
  const [a, d, , g, b, e, , h, , , , , c, f] = transform(perspective(corners), { width: 400, height: 300 }).slice(9, -1).split(',').map(Number);
  const depth = g * 400 + h * 300 + 1;
  near((a * 400 + b * 300 + c) / depth, 190, 0.01);
  near((d * 400 + e * 300 + f) / depth, 180, 0.01);
});

test('corners on one line are no rectangle', () => {
  assert.equal(perspective([0, 1, 2, 3].map((x) => ({ x, y: x }))), undefined);
});

test('a place on the screen is where its direction is projected', () => {
  const [view, size] = [{ yaw: 170, pitch: -25, angle: 70 }, { width: 900, height: 600 }];
  for (const direction of [{ yaw: 170, pitch: -25 }, { yaw: -165, pitch: 5 }, { yaw: 150, pitch: -40 }]) {
    const back = unproject(project(direction, view, size), view, size);
    near(back.yaw, direction.yaw);
    near(back.pitch, direction.pitch);
  }
});

test('the cells of a picture lie within it, also across the seam of the panorama', () => {
  const picture = [{ yaw: 172, pitch: 8 }, { yaw: -172, pitch: 8 }, { yaw: -172, pitch: -8 }, { yaw: 172, pitch: -8 }];
  const found = cells(picture, 3);
  assert.equal(found.length, 9);
  for (const { yaw, pitch } of found) assert.ok(Math.abs(yaw) > 172 && Math.abs(pitch) < 8, `${yaw} ${pitch}`);
  assert.ok(found[0].pitch > found[8].pitch && found[0].yaw > 0 && found[8].yaw < 0);
});

const grey = (...levels) => Uint8ClampedArray.from(levels.flatMap((level) => [level, level, level, 255]));

test('a picture gets the light of its place, and is never brighter than it is', () => {
  assert.deepEqual([...lightOn(grey(100, 200), grey(100, 200))], [...grey(255, 255)]);
  assert.deepEqual([...lightOn(grey(100, 100), grey(200, 200))], [...grey(255, 255)]);
  const [half] = lightOn(grey(200, 200), grey(96, 96));
  assert.ok(half > 115 && half < 140, half);
  const shaded = lightOn(grey(200, 200), grey(160, 80));
  assert.ok(shaded[0] > shaded[4] + 20, 'a shadow falls where it fell');
  const warm = lightOn(grey(200, 200), Uint8ClampedArray.of(160, 140, 90, 255, 160, 140, 90, 255));
  assert.ok(warm[0] > warm[2] && warm[2] > warm[0] * 0.7, 'its colour is faint');
});

test('blocks of pixels have a mean', () => {
  assert.deepEqual([...means(grey(0, 100, 10, 30, 100, 200, 10, 30), 4, 2)], [...grey(100, 20)]);
});
