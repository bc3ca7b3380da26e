// The command line.

import { parseArgs } from 'node:util';

/** Every row there is, in the order in which they run. */
export const ROWS = [
  'size', 'idle', 'sessions', 'relay', 'webdriver', 'sockets', 'live', 'console', 'calls', 'mcp', 'throughput', 'engines', 'ads', 'egress', 'logins',
  'tasks', 'worlds', 'history',
];

/** Rows that run only where they are named: they take long, much of the machine, or root. */
export const NAMED = ['burst', 'life', 'freezing', 'paging', 'names', 'hundred', 'swarm', 'thousand'];

/** Reads the arguments; throws an error with one line for the user. */
export function readOptions(argv) {
  const { values } = parseArgs({
    args: argv,
    options: {
      quick: { type: 'boolean', default: false },
      rows: { type: 'string' },
      rounds: { type: 'string' },
      'no-peers': { type: 'boolean', default: false },
      hundred: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      markdown: { type: 'boolean', default: false },
    },
  });
  const rows = values.rows === undefined ? [...ROWS] : values.rows.split(',').filter(Boolean);
  if (values.hundred && !rows.includes('hundred')) rows.push('hundred');
  const known = [...ROWS, ...NAMED];
  const unknown = rows.find((row) => !known.includes(row));
  if (unknown !== undefined) throw new Error(`no row ${unknown}; there are ${known.join(', ')}`);
  const rounds = Number(values.rounds ?? (values.quick ? 5 : 40));
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error('--rounds takes a whole number from 1');
  const { quick, json, markdown } = values;
  return { rows, rounds, quick, json, markdown, peers: !values['no-peers'] };
}
