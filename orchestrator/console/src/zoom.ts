// Zooming into the picture, by a button and with two fingers. The picture's element grows and its frame scrolls, so that
// places on it stay true for both kinds of picture.

const LARGEST = 6;
/** The least that the button enlarges by. */
const STEP = 2;

/** As much of noVNC's gesture events as is used here. */
type Gesture = CustomEvent<{ type?: string; clientX: number; clientY: number; magnitudeX: number; magnitudeY: number } | null>;

export class Zoom {
  #level = 1;
  #pinch: { level: number; distance: number; x: number; y: number } | undefined;
  #drag: { left: number; top: number } | undefined;
  readonly #fingers = new Map<number, PointerEvent>();

  /**
   * `acting` says whether one finger belongs to the remote page; `cancel` is called when a second one makes it a pinch.
   */
  constructor(
    private readonly view: HTMLElement,
    private readonly screen: HTMLElement,
    private readonly acting: () => boolean,
    private readonly cancel: () => void,
    private readonly changed: () => void,
  ) {
    new ResizeObserver(() => this.#resize()).observe(view);
    for (const type of ['pointerdown', 'pointermove', 'pointerup', 'pointercancel'] as const) {
      view.addEventListener(type, (event) => this.#finger(event), { capture: true });
    }
    // noVNC recognises gestures on a display, and would turn a pinch into a wheel.
    for (const type of ['gesturestart', 'gesturemove', 'gestureend']) {
      view.addEventListener(type, (event) => this.#gesture(event as Gesture), { capture: true });
    }
  }

  get zoomed(): boolean {
    return this.#level > 1;
  }

  /** Whether the picture is shown so small that somebody may want to enlarge it. */
  get useful(): boolean {
    const canvas = this.#canvas();
    return this.zoomed || (canvas !== null && this.#fit(canvas) < 0.75);
  }

  toggle(): void {
    const [canvas, { clientWidth, clientHeight }] = [this.#canvas(), this.view];
    // At least as large as fills the frame.
    const filled = canvas ? Math.max(clientWidth / canvas.width, clientHeight / canvas.height) / this.#fit(canvas) : 1;
    this.#to(this.zoomed ? 1 : Math.max(STEP, filled), clientWidth / 2, clientHeight / 2);
  }

  #canvas(): HTMLCanvasElement | null {
    return this.screen.querySelector('canvas');
  }

  #fit(canvas: HTMLCanvasElement): number {
    return Math.min(this.view.offsetWidth / canvas.width, this.view.offsetHeight / canvas.height);
  }

  /** Zooms so that what is at this place of the frame stays there. */
  #to(level: number, x: number, y: number): void {
    const [across, down] = [(this.view.scrollLeft + x) / this.screen.offsetWidth, (this.view.scrollTop + y) / this.screen.offsetHeight];
    this.#level = Math.min(Math.max(level, 1), LARGEST);
    this.#resize();
    this.view.scrollTo(across * this.screen.offsetWidth - x, down * this.screen.offsetHeight - y);
  }

  #resize(): void {
    const canvas = this.#canvas();
    const { style } = this.screen;
    if (this.zoomed && canvas) {
      const scale = this.#fit(canvas) * this.#level;
      style.width = `${Math.max(this.view.offsetWidth, canvas.width * scale)}px`;
      style.height = `${Math.max(this.view.offsetHeight, canvas.height * scale)}px`;
    } else {
      style.width = style.height = '';
    }
    // What scrolls is reached by keyboard, too.
    this.view.tabIndex = this.zoomed ? 0 : -1;
    this.changed();
  }

  #start(x: number, y: number, distance: number): void {
    this.#pinch = { level: this.#level, distance: Math.max(distance, 1), x, y };
  }

  #move(x: number, y: number, distance: number): void {
    const pinch = this.#pinch;
    if (!pinch) return;
    const box = this.view.getBoundingClientRect();
    this.view.scrollBy(pinch.x - x, pinch.y - y);
    [pinch.x, pinch.y] = [x, y];
    this.#to((pinch.level * distance) / pinch.distance, x - box.left, y - box.top);
  }

  /** Two fingers on the pictures of a headless browser, or one that drags a picture on which it cannot act. */
  #finger(event: PointerEvent): void {
    if (event.pointerType !== 'touch') return;
    const before = this.#fingers.get(event.pointerId);
    const down = event.type === 'pointerdown';
    if (!down && !before) return;
    if (event.type === 'pointerdown' || event.type === 'pointermove') this.#fingers.set(event.pointerId, event);
    else this.#fingers.delete(event.pointerId);
    // A display's fingers are noVNC's to follow: it takes touch events, and these are pointer events.
    if (this.screen.firstElementChild instanceof HTMLCanvasElement) this.#follow(event, down, before);
    if (this.#fingers.size === 0) this.#pinch = undefined;
  }

  #follow(event: PointerEvent, down: boolean, before: PointerEvent | undefined): void {
    const [one, two] = [...this.#fingers.values()];
    if (down && this.#fingers.size === 2) this.cancel();
    if (one && two) {
      const centre = [(one.clientX + two.clientX) / 2, (one.clientY + two.clientY) / 2] as const;
      const distance = Math.hypot(one.clientX - two.clientX, one.clientY - two.clientY);
      if (down) this.#start(...centre, distance);
      else this.#move(...centre, distance);
    } else if (one && before && !this.#pinch && !this.acting()) {
      this.view.scrollBy(before.clientX - event.clientX, before.clientY - event.clientY);
    }
    // What began as a pinch stays one until the last finger is gone.
    if (this.#pinch) event.stopPropagation();
  }

  #gesture(event: Gesture): void {
    const { detail } = event;
    const drags = detail?.type === 'twodrag' || (detail?.type === 'drag' && !this.acting());
    if (detail?.type === 'pinch') {
      const distance = Math.hypot(detail.magnitudeX, detail.magnitudeY);
      if (event.type === 'gesturestart') this.#start(detail.clientX, detail.clientY, distance);
      else if (event.type === 'gesturemove') this.#move(detail.clientX, detail.clientY, distance);
      else this.#pinch = undefined;
    } else if (drags && this.zoomed) {
      if (event.type === 'gesturestart') this.#drag = { left: this.view.scrollLeft, top: this.view.scrollTop };
      if (this.#drag && detail) this.view.scrollTo(this.#drag.left - detail.magnitudeX, this.#drag.top - detail.magnitudeY);
    } else {
      return;
    }
    event.stopPropagation();
  }
}
