// A chart of the last hour, in the colours of the page.

import uPlot from 'uplot';
import { make } from '../shared/dom';

export interface Line {
  label: string;
  /** The name of a colour of the theme. */
  colour: string;
  /** Filled below. */
  filled?: boolean;
  /** With a dot at each value: it may have no neighbours to draw a line to. */
  dots?: boolean;
}

const HEIGHT = 150;
/** The shortest span of time that a chart shows, in seconds. */
const SPAN = 600;

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export class Chart {
  readonly element: HTMLElement;
  readonly #summary: HTMLElement;
  readonly #box: HTMLElement;
  readonly #resize = new ResizeObserver(() => this.#fit());
  #plot: uPlot | undefined;
  #data: uPlot.AlignedData = [[]];

  constructor(title: string, private readonly lines: readonly Line[], private readonly value: (value: number) => string, private readonly least: number) {
    this.#box = make('div', { class: 'chart', 'aria-hidden': 'true' });
    this.#summary = make('p', { class: 'hint' });
    const legend = lines.map(({ label, colour: name }) => make('span', { class: 'key', 'data-colour': name }, label));
    this.element = make('figure', {}, make('figcaption', {}, make('b', {}, title), ...legend), this.#box, this.#summary);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
  }

  start(): void {
    this.#resize.observe(this.#box);
    this.#draw();
  }

  stop(): void {
    this.#resize.disconnect();
    this.#plot?.destroy();
    this.#plot = undefined;
  }

  /** Points in time, in seconds, and a list of values for each line. */
  set(times: number[], values: (number | null)[][], summary: string): void {
    this.#data = [times, ...values] as uPlot.AlignedData;
    this.#summary.textContent = summary;
    if (this.#plot) this.#plot.setData(this.#data);
  }

  #fit(): void {
    const width = Math.floor(this.#box.clientWidth);
    if (this.#plot && width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT });
    else if (!this.#plot && width > 0) this.#draw();
  }

  #draw(): void {
    const width = Math.floor(this.#box.clientWidth);
    this.#plot?.destroy();
    this.#plot = undefined;
    if (width <= 0) return;
    const [ink, line] = [colour('soft'), colour('line')];
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: '12px system-ui, sans-serif' };
    const options: uPlot.Options = {
      width,
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      padding: [8, 28, 0, 0],
      scales: {
        x: { time: true, range: (_, from, to) => [Math.min(from ?? 0, (to ?? 0) - SPAN), to ?? 0] },
        y: { range: (_, __, to) => [0, Math.max(this.least, (to ?? 0) * 1.1)] },
      },
      axes: [
        { ...axis, space: 70 },
        { ...axis, size: 62, values: (_, ticks) => ticks.map(this.value) },
      ],
      series: [
        {},
        ...this.lines.map(({ label, colour: name, filled, dots }) => {
          const stroke = colour(name);
          return { label, stroke, width: 2, points: { show: dots === true, size: 5, fill: stroke }, spanGaps: false, ...(filled ? { fill: `${stroke}33` } : {}) };
        }),
      ],
    };
    this.#plot = new uPlot(options, this.#data, this.#box);
  }
}
