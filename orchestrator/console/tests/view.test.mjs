import assert from 'node:assert/strict';
import { test } from 'node:test';
import { between, closeUp, horizontalAngle, inView, limited, project, projectFlat, separation, strip, wrap } from '../src/world/view.ts';

const screen = { width: 1200, height: 800 };
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is not ${b}`);

test('yaws wrap, pitch and angle stay within their limits', () => {
  assert.deepEqual([wrap(190), wrap(-190), wrap(540), wrap(-180)], [-170, 170, -180, -180]);
  assert.deepEqual(limited({ yaw: 361, pitch: -90, angle: 5 }), { yaw: 1, pitch: -60, angle: 35 });
});

test('what the camera faces lies in the middle, right is right and up is up', () => {
  const view = { yaw: 170, pitch: 20, angle: 90 };
  const centre = project({ yaw: 170, pitch: 20 }, view, screen);
  near(centre.x, 600);
  near(centre.y, 400);
  assert.ok(project({ yaw: -175, pitch: 20 }, view, screen).x > 600);
  assert.ok(project({ yaw: 170, pitch: 30 }, view, screen).y < 400);
  assert.equal(project({ yaw: -10, pitch: -20 }, view, screen), undefined);
});

test('the edge of the screen lies at half the angle', () => {
  const view = { yaw: 0, pitch: 0, angle: 90 };
  near(project({ yaw: 45, pitch: 0 }, view, screen).x, 1200);
  near(horizontalAngle(view, screen), 90);
  // On its side, the longer edge has it.
  const upright = { width: 800, height: 1200 };
  near(project({ yaw: 0, pitch: 45 }, view, upright).y, 0);
});

test('a flat picture covers the screen at every pitch', () => {
  for (const pitch of [-60, 0, 60]) {
    for (const size of [screen, { width: 320, height: 900 }]) {
      const { scale, top } = strip({ yaw: 0, pitch, angle: 100 }, size);
      assert.ok(top <= 0 && top + 180 * scale >= size.height - 1e-6);
    }
  }
  near(projectFlat({ yaw: 179, pitch: 0 }, { yaw: -179, pitch: 0, angle: 90 }, screen).x, 600 - (2 * 1200) / 90);
});

test('a view turns the shorter way', () => {
  const from = { yaw: 170, pitch: 0, angle: 90 };
  assert.deepEqual(between(from, { yaw: -170, pitch: 10, angle: 50 }, 0.5), { yaw: -180, pitch: 5, angle: 70 });
});

test('the item looked at is the one nearest to the centre, and does not flicker', () => {
  const item = (yaw) => ({ yaw, pitch: 0, width: 10, height: 10 });
  const [left, right] = [item(-8), item(8)];
  const look = (yaw, current) => inView([left, right], { yaw, pitch: 0, angle: 90 }, screen, current);
  assert.equal(look(-2), left);
  assert.equal(look(1, left), left);
  assert.equal(look(3, left), right);
  assert.equal(look(120), undefined);
  near(separation({ yaw: 179, pitch: 0 }, { yaw: -179, pitch: 0 }), 2);
});

test('a close-up shows the whole item', () => {
  for (const size of [screen, { width: 360, height: 600 }]) {
    const item = { yaw: 20, pitch: 5, width: 30, height: 20 };
    const { x } = project({ yaw: 35, pitch: 5 }, closeUp(item, size), size);
    assert.ok(x < size.width);
  }
});
