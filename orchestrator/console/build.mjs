// Bundles the pages into dist, which the daemon's build takes in.

import { copyFile, mkdir, rm } from 'node:fs/promises';
import { build } from 'esbuild';

await rm('dist', { recursive: true, force: true });
await mkdir('dist');
await build({
  entryPoints: { live: 'src/live.ts', world: 'src/world/world.ts', worlds: 'src/worlds/worlds.ts' },
  outdir: 'dist',
  bundle: true,
  format: 'esm',
  target: ['chrome100', 'firefox100', 'safari15.4'],
  minify: true,
  // Licences of what is bundled stand at the bundle's end.
  legalComments: 'eof',
  logLevel: 'warning',
});
await build({
  entryPoints: { live: 'src/live.css', world: 'src/world/world.css', worlds: 'src/worlds/worlds.css' },
  outdir: 'dist',
  bundle: true,
  minify: true,
  logLevel: 'warning',
});
await copyFile('src/favicon.svg', 'dist/favicon.svg');
await copyFile('src/world/world.html', 'dist/world.html');
await copyFile('src/world/world-closed.html', 'dist/world-closed.html');
await copyFile('src/worlds/worlds.html', 'dist/worlds.html');
// Last, since its presence means that the rest is there.
await copyFile('src/live.html', 'dist/live.html');
