// The present view. It moves only when the visitor asks, and eases only where they allow motion.

import { between, HOME_ANGLE, limited, type View } from './view';

const EASE = 280;
const still = matchMedia('(prefers-reduced-motion: reduce)');

export class Camera {
  #view: View = { yaw: 0, pitch: 0, angle: HOME_ANGLE };
  #home: View = this.#view;
  /** Where the view is going, so that steps add up while it eases. */
  #target: View = this.#view;
  #frame = 0;

  constructor(private readonly changed: (view: View) => void) {}

  get view(): View {
    return this.#view;
  }

  static get still(): boolean {
    return still.matches;
  }

  setHome(yaw: number): void {
    this.#home = limited({ yaw, pitch: 0, angle: HOME_ANGLE });
    this.jump(this.#home);
  }

  home(): void {
    this.ease(this.#home);
  }

  /** A step, in parts of what the screen shows. */
  step(right: number, up: number, part = 0.22): void {
    const { yaw, pitch, angle } = this.#target;
    this.ease({ yaw: yaw + right * angle * part, pitch: pitch + up * angle * part, angle });
  }

  zoom(factor: number): void {
    this.ease({ ...this.#target, angle: this.#target.angle * factor });
  }

  jump(to: View): void {
    cancelAnimationFrame(this.#frame);
    this.#view = this.#target = limited(to);
    this.changed(this.#view);
  }

  ease(to: View): void {
    if (still.matches) return this.jump(to);
    cancelAnimationFrame(this.#frame);
    const [from, target] = [this.#view, limited(to)];
    this.#target = target;
    const start = performance.now();
    const move = () => {
      const part = Math.min(1, (performance.now() - start) / EASE);
      this.#view = part === 1 ? target : between(from, target, 1 - (1 - part) ** 3);
      this.changed(this.#view);
      if (part < 1) this.#frame = requestAnimationFrame(move);
    };
    this.#frame = requestAnimationFrame(move);
  }
}
