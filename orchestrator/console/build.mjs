// Bundles the pages into dist, which the daemon's build takes in.

import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { build } from 'esbuild';

await rm('dist', { recursive: true, force: true });
await mkdir('dist');
await build({
  entryPoints: { live: 'src/live.ts', world: 'src/world/world.ts', console: 'src/console/console.ts', docs: 'src/docs/docs.ts' },
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
  entryPoints: { live: 'src/live.css', world: 'src/world/world.css', console: 'src/console/console.css', docs: 'src/docs/docs.css' },
  outdir: 'dist',
  bundle: true,
  minify: true,
  logLevel: 'warning',
});
await copyFile('src/favicon.svg', 'dist/favicon.svg');
await copyFile('src/world/world.html', 'dist/world.html');
await copyFile('src/world/world-closed.html', 'dist/world-closed.html');
await writeFile('dist/console.html', await included('console/console.html'));
await copyFile('src/docs/docs.html', 'dist/docs.html');
// Last, since its presence means that the rest is there.
await copyFile('src/live.html', 'dist/live.html');

/** A page, with its parts in their places: `<!-- include FILE NAME=VALUE … -->`. A part has `{{NAME}}` where a value goes. */
async function included(file, values = {}) {
  const text = (await readFile(`src/${file}`, 'utf8')).replace(/\{\{(\w+)\}\}/g, (_, name) => values[name]);
  const parts = text.split(/^ *<!-- include (.*) -->\n/m).map((part, at) => {
    if (at % 2 === 0) return part;
    const [name, ...pairs] = part.split(' ');
    return included(name, Object.fromEntries(pairs.map((pair) => pair.split('='))));
  });
  return (await Promise.all(parts)).join('');
}
