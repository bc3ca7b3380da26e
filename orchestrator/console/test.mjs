// Runs the unit tests: of what needs no browser.

import { spawnSync } from 'node:child_process';
import { readdir, rm } from 'node:fs/promises';
import { build } from 'esbuild';

const outdir = 'node_modules/.tests';
const names = (await readdir('tests')).filter((name) => name.endsWith('.test.mjs'));
await build({
  entryPoints: names.map((name) => `tests/${name}`),
  outdir,
  bundle: true,
  platform: 'node',
  format: 'esm',
  outExtension: { '.js': '.mjs' },
  logLevel: 'warning',
});
const { status } = spawnSync(process.execPath, ['--test', outdir], { stdio: 'inherit' });
await rm(outdir, { recursive: true });
process.exit(status ?? 1);
