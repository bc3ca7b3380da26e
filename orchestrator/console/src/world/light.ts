// The light that falls on a picture in the scene, found by comparing what was rendered with the picture itself. Pure.

/** Pixels of four bytes, as a canvas has them. */
export type Pixels = Uint8ClampedArray;

/** So dark a channel says little about the light. */
const DARK = 8;
const DARKEST = 0.3;
/** How far light may differ within one picture, and how far it may be coloured. */
const UNEVEN = 0.35;
const TINTED = 0.12;

const within = (value: number, from: number, reach: number) => Math.min(from * (1 + reach), Math.max(from * (1 - reach), value));
const luma = (pixels: Pixels, at: number) => 0.2126 * pixels[at]! + 0.7152 * pixels[at + 1]! + 0.0722 * pixels[at + 2]!;

/** By what each place of a picture is to be multiplied, so that it looks as if it hung where the rendered one does. */
export function lightOn(picture: Pixels, rendered: Pixels): Pixels {
  const places = Array.from({ length: picture.length / 4 }, (_, place) => place * 4);
  const sum = (pixels: Pixels, of: (pixels: Pixels, at: number) => number) => places.reduce((total, at) => total + of(pixels, at) + DARK, 0);
  const whole = sum(rendered, luma) / sum(picture, luma);
  const tint = [0, 1, 2].map((channel) => {
    const one = (pixels: Pixels, at: number) => pixels[at + channel]!;
    return within(sum(rendered, one) / sum(picture, one) / whole, 1, TINTED);
  });
  const light = new Uint8ClampedArray(picture.length);
  for (const at of places) {
    const here = within((luma(rendered, at) + DARK) / (luma(picture, at) + DARK), whole, UNEVEN);
    const level = (whole + here) / 2;
    for (const channel of [0, 1, 2]) light[at + channel] = 255 * Math.min(1, Math.max(DARKEST, level * tint[channel]!));
    light[at + 3] = 255;
  }
  return light;
}

/** The means of square blocks of pixels, row by row. */
export function means(pixels: Pixels, width: number, block: number): Pixels {
  const [across, down] = [width / block, pixels.length / 4 / width / block];
  const found = new Uint8ClampedArray(across * down * 4);
  for (let at = 0; at < found.length; at += 1) {
    const [cell, channel] = [Math.floor(at / 4), at % 4];
    const [left, top] = [(cell % across) * block, Math.floor(cell / across) * block];
    let total = 0;
    for (let y = top; y < top + block; y += 1) for (let x = left; x < left + block; x += 1) total += pixels[(y * width + x) * 4 + channel]!;
    found[at] = total / block ** 2;
  }
  return found;
}
