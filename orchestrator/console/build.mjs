// Bundles the pages into dist, which the daemon's build takes in.

import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { guides, html, pictures } from './guides.mjs';
import { lighthouse } from './lighthouse.mjs';

await rm('dist', { recursive: true, force: true });
await mkdir('dist/docs', { recursive: true });
await build({
  entryPoints: {
    live: 'src/live.ts',
    world: 'src/world/world.ts',
    console: 'src/console/console.ts',
    start: 'src/site/start.ts',
    docs: 'src/docs/docs.ts',
    guide: 'src/site/guide.ts',
  },
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
  entryPoints: { live: 'src/live.css', world: 'src/world/world.css', console: 'src/console/console.css', site: 'src/site/site.css' },
  outdir: 'dist',
  bundle: true,
  minify: true,
  logLevel: 'warning',
});
// Scripts for pages of workers' browsers. Each is one expression for the daemon: the names stay within the script.
const script = {
  bundle: true,
  format: 'iife',
  globalName: 'warmpoolFunction',
  target: ['chrome120'],
  minify: true,
  legalComments: 'eof',
  logLevel: 'warning',
};
const withoutNode = { name: 'without what only Node has', setup: leaveOut };
await build({ ...script, entryPoints: { function: 'src/function/function.ts' }, outdir: 'dist', plugins: [withoutNode] });
const audit = await build({
  ...script,
  entryPoints: { audit: 'src/function/audit.ts' },
  outdir: 'dist',
  // It is much longer than the others, so the daemon has it compressed.
  write: false,
  // Lighthouse sends functions of its own to pages as text, and finds them by their names.
  keepNames: true,
  define: { global: 'globalThis', 'process.env': '{}' },
  inject: ['src/function/node.js'],
  plugins: [lighthouse, withoutNode],
});
await writeFile('dist/audit.js.gz', gzipSync(audit.outputFiles[0].contents, { level: 9 }));
await copyFile('src/favicon.svg', 'dist/favicon.svg');
await copyFile('src/world/world.html', 'dist/world.html');
await copyFile('src/world/world-closed.html', 'dist/world-closed.html');
await writeFile('dist/console.html', await included('console/console.html'));
await writeFile('dist/start.html', await included('site/start.html'));
await writeFile('dist/not-found.html', await included('site/not-found.html'));
const all = await guides();
const list = (root, current) =>
  all.map(({ name, title }) => `        <li><a href="${root}${name}"${name === current ? ' aria-current="page"' : ''}>${title}</a></li>`).join('\n');
await writeFile('dist/docs.html', await included('docs/docs.html', { guides: list('docs/') }));
for (const guide of all) {
  await writeFile(`dist/docs/${guide.name}.html`, await included('site/guide.html', { title: guide.title, guides: list('', guide.name), content: html(guide, all) }));
}
for (const { name, path } of await pictures()) await copyFile(path, `dist/docs/${name}`);
// Last, since its presence means that the rest is there.
await copyFile('src/live.html', 'dist/live.html');

/**
 * A page, with its parts in their places: `<!-- include FILE NAME=VALUE … -->`. A page and a part have `{{NAME}}` where a value goes;
 * what has no value here is the daemon's to fill in.
 */
async function included(file, values = {}) {
  const parts = (await readFile(`src/${file}`, 'utf8')).split(/^ *<!-- include (.*) -->\n/m).map((part, at) => {
    // One pass: what stands in a value is no place for another.
    if (at % 2 === 0) return part.replace(/\{\{(\w+)\}\}/g, (whole, name) => values[name] ?? whole);
    const [name, ...pairs] = part.split(' ');
    return included(name, Object.fromEntries(pairs.map((pair) => /^(\w+)=(.*)$/.exec(pair).slice(1))));
  });
  return (await Promise.all(parts)).join('');
}

/** Leaves out the parts of Puppeteer for Node and for WebDriver BiDi, which no page runs. */
function leaveOut(build) {
  build.onResolve({ filter: /^(node:.*|ws|@puppeteer\/browsers|\.\.\/bidi\/.*)$/ }, ({ path }) => ({ path, namespace: 'left-out' }));
  build.onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({ contents: 'module.exports = {};', loader: 'js' }));
}
