// The one table: lines of figures, each beside its yardstick.

/** Collects lines. A line: {measure, unit, p50, p99?, n?, against?: {name, p50}, goal?, met?}. */
export class Table {
  lines = [];
  notes = [];

  /** Adds a line. With `better` ('less' or 'more') and a `limit` on the ratio or the figure it says whether a goal is met. */
  add(line) {
    const ratio = line.against ? line.p50 / line.against.p50 : undefined;
    const whole = { ...line, ratio };
    if (line.goal) {
      whole.met = line.goal.holds({ p50: line.p50, p99: line.p99, ratio });
      whole.goal = line.goal.text;
    }
    this.lines.push(whole);
    return whole;
  }

  note(text) {
    this.notes.push(text);
  }

  rows() {
    const head = ['measure', 'unit', 'p50', 'p99', 'n', 'against', 'p50', 'ratio', 'goal', 'met'];
    const body = this.lines.map((line) => [
      line.measure,
      line.unit,
      figure(line.p50),
      figure(line.p99),
      line.n === undefined ? '' : String(line.n),
      line.against?.name ?? '',
      figure(line.against?.p50),
      line.ratio === undefined ? '' : figure(line.ratio),
      line.goal ?? '',
      line.met === undefined ? '' : line.met ? 'yes' : 'NO',
    ]);
    return [head, ...body];
  }

  text() {
    const rows = this.rows();
    const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
    const numbers = new Set([2, 3, 4, 6, 7]);
    const lines = rows.map((row) =>
      row.map((cell, at) => (numbers.has(at) ? cell.padStart(widths[at]) : cell.padEnd(widths[at]))).join('  ').trimEnd(),
    );
    lines.splice(1, 0, widths.map((width) => '-'.repeat(width)).join('  '));
    return [...lines, ...this.notes.map((note) => `* ${note}`)].join('\n');
  }

  markdown() {
    const [head, ...body] = this.rows().map((row) => `| ${row.join(' | ')} |`);
    const rule = '|---|---|--:|--:|--:|---|--:|--:|---|---|';
    return [head, rule, ...body, '', ...this.notes.map((note) => `- ${note}`)].join('\n');
  }

  json() {
    return JSON.stringify({ lines: this.lines, notes: this.notes }, null, 2);
  }
}

/** Three figures that count, without an exponent. */
export function figure(value) {
  if (value === undefined || Number.isNaN(value)) return '';
  const size = Math.abs(value);
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

/** Goals, in the words of the table. */
export const goal = {
  p50: (limit) => ({ text: `p50 ≤ ${limit}`, holds: ({ p50 }) => p50 <= limit }),
  both: (p50, p99) => ({ text: `p50 ≤ ${p50}, p99 ≤ ${p99}`, holds: (it) => it.p50 <= p50 && it.p99 <= p99 }),
  atMost: (limit) => ({ text: `ratio ≤ ${limit}`, holds: ({ ratio }) => ratio <= limit }),
  atLeast: (limit) => ({ text: `ratio ≥ ${limit}`, holds: ({ ratio }) => ratio >= limit }),
  least: (limit) => ({ text: `≥ ${limit}`, holds: ({ p50 }) => p50 >= limit }),
  below: (limit) => ({ text: `< ${limit}`, holds: ({ p50 }) => p50 < limit }),
};
