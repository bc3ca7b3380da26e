// The first page: the pool, the host, and the last hour.

import { find, inline, make, redraw, tell } from '../shared/dom';
import type { ServerEvent } from '../shared/events';
import { ago, bytes, counted, duration, percent } from '../shared/format';
import { write } from '../shared/list';
import { json, Refusal } from '../shared/request';
import { badge, row } from '../shared/table';
import { sentence } from '../shared/text';
import { Chart } from './chart';
import type { Failed, Page, Topic } from './page';
import { engineName } from './session-record';

interface PoolKind {
  engine: string;
  mode: string;
  preset?: string;
  installed: boolean;
  target: number;
  ready: number;
  starting: number;
  leased: number;
  removing: number;
  waiting: number;
  last_error?: string;
}

interface Overview {
  version: string;
  phase: string;
  uptime: number;
  unready: string | null;
  runtime: boolean;
  pool: PoolKind[];
  workers: { max: number };
  sessions: { live: number; max: number; max_per_key: number };
  queue: { waiting: number; length: number };
  tasks: { queued: number; running: number; kept: number; workers: number };
  worlds: { queued: number; rendering: number };
  host: { cpu: number | null; cores: number | null; memory_total: number | null; memory_used: number | null };
  disk: { free: number | null; min_free: number; ok: boolean; warning: string | null };
  hour: Record<'created' | 'created_last_minute' | 'refused' | 'refused_last_minute', number> & Record<'create_p50' | 'create_p99', number | null>;
}

interface Sample {
  at: number;
  sessions: number;
  waiting: number;
  ready: number;
  created: number;
  refused: number;
  p50: number | null;
  p99: number | null;
  cpu: number | null;
  memory: number | null;
}

interface Findings {
  ok: boolean;
  at: number;
  findings: { level: 'ok' | 'warn' | 'fail'; title: string; detail: string; remedy: string | null }[];
}

/** An hour of samples. */
const KEPT = 360;
/** A gap in the samples longer than this is a time when the daemon was down, in milliseconds. */
const GAP = 25_000;

const whole = (value: number): string => (Number.isInteger(value) ? String(value) : '');

export class OverviewPage implements Page {
  readonly topics: readonly Topic[] = ['overview'];
  readonly title = 'Overview';
  readonly #sessions = new Chart('Sessions', [{ label: 'live', colour: 'accent', filled: true }, { label: 'waiting', colour: 'wait' }], whole, 4);
  readonly #created = new Chart('A minute', [{ label: 'created', colour: 'good', filled: true }, { label: 'refused', colour: 'bad' }], whole, 6);
  readonly #times = new Chart('Create time', [{ label: 'p50', colour: 'accent', dots: true }, { label: 'p99', colour: 'wait', dots: true }], (value) => duration(value), 10);
  readonly #host = new Chart('Host', [{ label: 'processors', colour: 'accent' }, { label: 'memory', colour: 'good' }], (value) => percent(value), 1);
  #samples: Sample[] = [];

  constructor(private readonly failed: Failed) {
    find('charts').append(...this.#charts().map((chart) => chart.element));
    find('doctor-again').addEventListener('click', () => void this.#doctor());
  }

  #charts(): Chart[] {
    return [this.#sessions, this.#created, this.#times, this.#host];
  }

  show(): void {
    for (const chart of this.#charts()) chart.start();
    void this.#load();
    void this.#doctor();
  }

  hide(): void {
    for (const chart of this.#charts()) chart.stop();
  }

  heard({ type, data }: ServerEvent): void {
    if (type === 'hello') void this.#load();
    else if (type === 'overview') this.#print(JSON.parse(data) as Overview);
    else if (type === 'sample') {
      this.#samples = [...this.#samples, JSON.parse(data) as Sample].slice(-KEPT);
      this.#draw();
    }
  }

  async #load(): Promise<void> {
    try {
      const overview = await json<Overview & { samples: Sample[] }>('GET', 'console/api/overview');
      this.#samples = overview.samples;
      this.#print(overview);
      this.#draw();
      find('overview-problem').textContent = '';
    } catch (error) {
      this.failed(error);
      if (error instanceof Refusal) tell(find('overview-problem'), error.message);
    }
  }

  #print(now: Overview): void {
    const { hour } = now;
    const time = (ms: number | null) => (ms === null ? '–' : duration(ms));
    const numbers: [label: string, value: string, note: string, unit?: string][] = [
      ['Live sessions', String(now.sessions.live), `of ${now.sessions.max}`],
      ['Waiting', String(now.queue.waiting), `of ${now.queue.length} places`],
      ['Created', String(hour.created), `in the hour, ${hour.created_last_minute} in the last minute`],
      ['Create time', time(hour.create_p50), `p99 ${time(hour.create_p99)}, in the hour`, 'p50'],
      ['Refused', String(hour.refused), `in the hour, ${hour.refused_last_minute} in the last minute`],
      ['Tasks', String(now.tasks.running), `running, ${now.tasks.queued} queued, ${now.tasks.kept.toLocaleString()} kept`],
    ];
    redraw(
      find('overview-numbers'),
      numbers.map(([label, value, note, unit]) =>
        make('li', {}, make('span', { class: 'label' }, label), make('b', {}, ...(unit ? [make('small', {}, unit), ' '] : []), value), make('span', { class: 'note' }, note)),
      ),
    );
    const warnings = [now.unready && now.unready !== 'draining' ? `Not ready: ${now.unready}` : '', now.disk.warning ?? ''].filter(Boolean);
    if (now.phase === 'draining' || now.unready === 'draining') warnings.unshift('Warmpool is shutting down: it takes no new sessions');
    find('overview-warning').hidden = warnings.length === 0;
    write(find('overview-warning'), warnings.map(sentence).join(' '));
    write(find('pool-note'), `Warmpool ${now.version}, up for ${duration(Math.floor(now.uptime / 60_000) * 60_000 || now.uptime)}`);
    this.#pool(now);
    this.#bars(now);
  }

  #pool(now: Overview): void {
    const kinds = now.pool.filter((kind) => kind.target + kind.ready + kind.starting + kind.leased + kind.waiting > 0 || kind.last_error || !kind.installed);
    const number = (value: number) => make('span', { class: 'number' }, String(value));
    redraw(
      find('pool-rows'),
      kinds.map((kind) => {
        const name = `${engineName(kind.engine)}, ${kind.preset ?? kind.mode}`;
        const state = !kind.installed
          ? [badge('not installed', 'off')]
          : kind.last_error
            ? [badge('failing', 'bad'), make('span', { class: 'note' }, kind.last_error)]
            : [];
        return row(
          {},
          ['Workers', make('span', { class: 'name' }, name, ' ', ...state)],
          ['Warm', number(kind.ready)],
          ['Wanted', number(kind.target)],
          ['Starting', number(kind.starting)],
          ['In use', number(kind.leased)],
          ['Waiting', number(kind.waiting)],
        );
      }),
    );
  }

  #bars({ host, disk }: Overview): void {
    const bar = (label: string, share: number | null, note: string) => {
      const filled = make('span', { 'data-tone': share !== null && share > 0.9 ? 'bad' : 'accent' });
      filled.style.width = `${Math.round(100 * Math.min(1, share ?? 0))}%`;
      return make('li', {}, make('span', { class: 'label' }, label), make('span', { class: 'bar', 'aria-hidden': 'true' }, filled), make('span', { class: 'note' }, note));
    };
    const memory = host.memory_total && host.memory_used !== null ? host.memory_used / host.memory_total : null;
    const of = memory === null ? 'not known' : `${bytes(host.memory_used ?? 0)} of ${bytes(host.memory_total ?? 0)}`;
    const cores = host.cores === null ? '' : ` of ${counted(host.cores, 'core', 'cores')}`;
    redraw(find('host-bars'), [
      bar('Processors', host.cpu, host.cpu === null ? 'not known yet' : `${percent(host.cpu)}${cores}`),
      bar('Memory', memory, of),
      make('li', {}, make('span', { class: 'label' }, 'Disk'), make('span', { class: 'note' }, disk.free === null ? 'not known' : `${bytes(disk.free)} free; nothing new is accepted below ${bytes(disk.min_free)}`)),
    ]);
  }

  #draw(): void {
    const samples = this.#samples;
    const times: number[] = [];
    const kept: (Sample | null)[] = [];
    samples.forEach((sample, at) => {
      const before = samples[at - 1];
      if (before && sample.at - before.at > GAP) {
        times.push(before.at / 1000 + 1);
        kept.push(null);
      }
      times.push(sample.at / 1000);
      kept.push(sample);
    });
    const line = (of: (sample: Sample) => number | null) => kept.map((sample) => (sample ? of(sample) : null));
    const most = (values: (number | null)[]) => Math.max(0, ...values.map((value) => value ?? 0));
    const live = line(({ sessions }) => sessions);
    const minute = (of: (sample: Sample) => number) => line((sample) => of(sample) * 6);
    const [cpu, memory] = [line((sample) => sample.cpu), line((sample) => sample.memory)];
    this.#sessions.set(times, [live, line(({ waiting }) => waiting)], `At most ${most(live)} at once.`);
    this.#created.set(times, [minute(({ created }) => created), minute(({ refused }) => refused)], `${samples.reduce((sum, { created }) => sum + created, 0)} created, ${samples.reduce((sum, { refused }) => sum + refused, 0)} requests refused.`);
    const slowest = most(line(({ p99 }) => p99));
    this.#times.set(times, [line(({ p50 }) => p50), line(({ p99 }) => p99)], slowest ? `p99 at most ${duration(slowest)}.` : 'No session was created.');
    this.#host.set(times, [cpu, memory], `Processors at most ${percent(most(cpu))}, memory at most ${percent(most(memory))}.`);
    const first = samples[0];
    write(find('hour-note'), first ? `since ${ago(first.at)}, every 10 seconds` : 'The first point comes within ten seconds.');
  }

  async #doctor(): Promise<void> {
    if (document.body.dataset['role'] !== 'operator') {
      find('doctor-again').hidden = true;
      write(find('doctor-problem'), 'Operators see it.');
      return;
    }
    const button = find<HTMLButtonElement>('doctor-again');
    button.hidden = false;
    button.disabled = true;
    try {
      const { findings } = await json<Findings>('GET', 'console/api/doctor');
      const wrong = findings.filter(({ level }) => level !== 'ok');
      write(find('doctor-problem'), wrong.length ? '' : `All ${findings.length} checks are fine.`);
      const one = ({ level, title, detail, remedy }: Findings['findings'][number]) =>
        make('li', { 'data-tone': level === 'fail' ? 'bad' : level === 'warn' ? 'wait' : 'good' }, make('b', {}, title), make('span', {}, ...inline(sentence(detail))), ...(remedy ? [make('span', { class: 'note' }, ...inline(`To mend it: ${remedy}`))] : []));
      const fine = make('details', {}, make('summary', {}, counted(findings.length - wrong.length, 'check is fine', 'checks are fine')), make('ul', { class: 'findings' }, ...findings.filter(({ level }) => level === 'ok').map(one)));
      find('doctor-findings').replaceChildren(...wrong.map(one), ...(wrong.length < findings.length ? [make('li', { class: 'fine' }, fine)] : []));
    } catch (error) {
      this.failed(error);
      if (error instanceof Refusal) tell(find('doctor-problem'), error.message);
    } finally {
      button.disabled = false;
    }
  }
}
