// The visitor's own pictures, drawn over the rendered ones as sharp as the screen is.

import { make } from '../shared/dom';
import { drawFilm, filmRatio } from './film';
import { lightOn, means, type Pixels } from './light';
import { cells, type Corners, perspective, transform } from './perspective';
import type { Screen } from './picture';
import type { Item } from './scene';
import type { Direction, Point, Size, View } from './view';

/** A picture's light is found in so many places across, each the mean of a block of pixels. */
const PLACES = 6;
const BLOCK = 16;
/** The width of the panorama's copy in which the light is looked up. */
const COPY = 1024;
/** Sizes of a drawing grow by this factor, so that it is not drawn anew in each step of a zoom. */
const STEP = 1.25;
const LARGEST = 2048;
const PAUSE = 4000;

class Print {
  readonly canvas = make('canvas', { hidden: '' });
  readonly image = new Image();
  #light: HTMLCanvasElement | undefined;
  #drawn = 0;

  constructor(readonly item: Item & { corners: Corners<Direction> }) {}

  /** Draws the picture as it is, without the light. */
  face(context: CanvasRenderingContext2D, width: number, height: number): void {
    context.imageSmoothingQuality = 'high';
    if (this.item.kind === 'video') drawFilm(context, this.image, width, height);
    else context.drawImage(this.image, 0, 0, width, height);
  }

  get ratio(): number {
    const { naturalWidth: width, naturalHeight: height } = this.image;
    return this.item.kind === 'video' ? filmRatio(width, height) : width / height;
  }

  /** Finds out which light falls on the rendered picture. */
  illuminate(panorama: ImageData): void {
    const across = PLACES * BLOCK;
    const [canvas, context] = sheet(across, across);
    this.face(context, across, across);
    const picture = means(context.getImageData(0, 0, canvas.width, canvas.height).data, across, BLOCK);
    const directions = cells(this.item.corners, PLACES * 3);
    if (!directions) return;
    const light = lightOn(picture, means(lookUp(panorama, directions), PLACES * 3, 3));
    const [map, drawing] = sheet(PLACES, PLACES);
    const pixels = drawing.createImageData(PLACES, PLACES);
    pixels.data.set(light);
    drawing.putImageData(pixels, 0, 0);
    this.#light = map;
    this.#drawn = 0;
  }

  place(screen: Screen, view: View, area: Size): void {
    const seen = this.#light && this.item.corners.map((corner) => screen.place(corner, view, area));
    const points = seen?.every((point) => point !== undefined) ? (seen as unknown as Corners<Point>) : undefined;
    const found = points && meets(points, area) ? perspective(points) : undefined;
    this.canvas.hidden = !found;
    if (!points || !found) return;
    this.#draw(points);
    this.canvas.style.transform = transform(found, this.canvas);
  }

  /** Draws it as large as it is shown, unless it is. */
  #draw([p, q, r, s]: Corners<Point>): void {
    const side = (from: Point, to: Point) => Math.hypot(from.x - to.x, from.y - to.y);
    const shown = Math.max(side(p, q), side(s, r), side(p, s) * this.ratio, side(q, r) * this.ratio) * devicePixelRatio;
    const limit = Math.min(LARGEST, Math.max(this.image.naturalWidth, 64));
    const width = Math.round(Math.min(limit, STEP ** Math.ceil(Math.log(Math.max(shown, 16)) / Math.log(STEP))));
    if (width === this.#drawn || !this.#light) return;
    this.#drawn = width;
    const height = Math.max(1, Math.round(width / this.ratio));
    Object.assign(this.canvas, { width, height });
    const context = this.canvas.getContext('2d')!;
    this.face(context, width, height);
    context.globalCompositeOperation = 'multiply';
    context.drawImage(this.#light, 0, 0, width, height);
  }
}

function sheet(width: number, height: number): [HTMLCanvasElement, CanvasRenderingContext2D] {
  const canvas = make('canvas');
  Object.assign(canvas, { width, height });
  return [canvas, canvas.getContext('2d', { willReadFrequently: true })!];
}

/** What the panorama shows in these directions. */
function lookUp({ data, width, height }: ImageData, directions: readonly Direction[]): Pixels {
  const found = new Uint8ClampedArray(directions.length * 4);
  directions.forEach(({ yaw, pitch }, at) => {
    const x = Math.floor(((yaw + 180) / 360) * width + width) % width;
    const y = Math.min(height - 1, Math.max(0, Math.floor(((90 - pitch) / 180) * height)));
    found.set(data.subarray((y * width + x) * 4, (y * width + x) * 4 + 4), at * 4);
  });
  return found;
}

function meets(points: Corners<Point>, { width, height }: Size): boolean {
  const [x, y] = [points.map((point) => point.x), points.map((point) => point.y)];
  return Math.max(...x) > 0 && Math.min(...x) < width && Math.max(...y) > 0 && Math.min(...y) < height;
}

export class Prints {
  #prints: Print[] = [];
  #panorama: ImageData | undefined;
  #known = '';

  constructor(
    private readonly layer: HTMLElement,
    private readonly base: string,
    private readonly changed: () => void,
  ) {}

  set(items: readonly Item[]): void {
    const shown = items.filter((item): item is Print['item'] & { picture_url: string } => Boolean(item.corners && item.picture_url));
    const known = JSON.stringify(shown);
    if (known === this.#known) return;
    this.clear();
    this.#known = known;
    this.#prints = shown.map((item) => new Print(item));
    this.layer.replaceChildren(...this.#prints.map(({ canvas }) => canvas));
    for (const [at, print] of this.#prints.entries()) void this.#load(print, shown[at]!.picture_url);
  }

  /** The picture of the scene, or a better one. */
  setPanorama(image: HTMLImageElement): void {
    const [canvas, context] = sheet(COPY, COPY / 2);
    context.imageSmoothingQuality = 'high';
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    this.#panorama = context.getImageData(0, 0, canvas.width, canvas.height);
    for (const print of this.#prints) this.#light(print);
  }

  /** The address of an item's picture, if that has been fetched. */
  source(item: Item): string | undefined {
    return this.#prints.find((print) => print.item.picture_url === item.picture_url)?.image.src || undefined;
  }

  place(screen: Screen, view: View, area: Size): void {
    for (const print of this.#prints) print.place(screen, view, area);
  }

  clear(): void {
    for (const { image } of this.#prints) URL.revokeObjectURL(image.src);
    this.layer.replaceChildren();
    this.#prints = [];
    this.#known = '';
  }

  async #load(print: Print, file: string): Promise<void> {
    try {
      const reply = await fetch(`${this.base}/${file}`, { cache: 'no-store' });
      if (!reply.ok) throw new Error(reply.statusText);
      print.image.src = URL.createObjectURL(await reply.blob());
      await print.image.decode();
    } catch {
      // The rendered picture is there meanwhile.
      if (this.#prints.includes(print)) setTimeout(() => void this.#load(print, file), PAUSE);
      return;
    }
    this.#light(print);
  }

  #light(print: Print): void {
    if (!this.#panorama || !print.image.naturalWidth || !this.#prints.includes(print)) return;
    print.illuminate(this.#panorama);
    this.changed();
  }
}
