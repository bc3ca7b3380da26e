// Two ways to show the scene: as a panorama by WebGL, and as a wide still picture where there is no WebGL.

import { type Renderer, renderer } from './pannellum';
import { type Direction, horizontalAngle, type Point, project, projectFlat, type Size, strip, type View } from './view';

const RADIANS = Math.PI / 180;

export interface Picture {
  show(image: HTMLImageElement): void;
  render(view: View, size: Size): void;
  /** Where a direction lies on the screen. */
  place(direction: Direction, view: View, size: Size): Point | undefined;
  remove(): void;
}

class Panorama implements Picture {
  readonly #renderer: Renderer;
  #size: Size = { width: 0, height: 0 };
  readonly place = project;

  constructor(container: HTMLElement, lost: () => void) {
    this.#renderer = renderer(container);
    this.#renderer.getCanvas().addEventListener('webglcontextlost', lost, { once: true });
  }

  /** Throws where WebGL is missing or cannot take the picture. */
  show(image: HTMLImageElement): void {
    this.#renderer.init(image, 'equirectangular', false, 2 * Math.PI, Math.PI, 0, () => {}, {});
    this.#size = { width: 0, height: 0 };
  }

  render(view: View, size: Size): void {
    if (size.width !== this.#size.width || size.height !== this.#size.height) {
      this.#renderer.resize();
      this.#size = size;
    }
    this.#renderer.render(view.pitch * RADIANS, view.yaw * RADIANS, horizontalAngle(view, size) * RADIANS);
  }

  remove(): void {
    this.#renderer.destroy();
  }
}

class Still implements Picture {
  readonly place = projectFlat;

  constructor(private readonly container: HTMLElement) {}

  show(image: HTMLImageElement): void {
    this.container.style.backgroundImage = `url("${image.src}")`;
  }

  render(view: View, size: Size): void {
    const { scale, left, top } = strip(view, size);
    this.container.style.backgroundSize = `${360 * scale}px ${180 * scale}px`;
    this.container.style.backgroundPosition = `${left}px ${top}px`;
  }

  remove(): void {
    this.container.style.backgroundImage = '';
  }
}

/** Shows pictures by WebGL as long as that works, then as still ones. */
export class Screen {
  #picture: Picture | undefined;
  #image: HTMLImageElement | undefined;

  constructor(private readonly container: HTMLElement, private readonly fellBack: () => void) {}

  get ready(): boolean {
    return this.#image !== undefined;
  }

  get flat(): boolean {
    return this.#picture instanceof Still;
  }

  show(image: HTMLImageElement): void {
    this.#image = image;
    try {
      this.#picture ??= new Panorama(this.container, () => this.#fallBack());
      this.#picture.show(image);
    } catch {
      this.#fallBack();
    }
  }

  render(view: View, size: Size): void {
    this.#picture?.render(view, size);
  }

  place(direction: Direction, view: View, size: Size): Point | undefined {
    return this.#picture?.place(direction, view, size);
  }

  clear(): void {
    this.#picture?.remove();
    this.#picture = this.#image = undefined;
  }

  #fallBack(): void {
    const image = this.#image;
    if (!image || this.flat) return;
    this.#picture?.remove();
    this.container.replaceChildren();
    this.#picture = new Still(this.container);
    this.#picture.show(image);
    this.fellBack();
  }
}
