// Lighthouse is written for Node, and calls for audits run it in a page. This makes esbuild bundle it so: what it reads from its own
// folder at run time becomes a part of the bundle, and what only its command line needs is left out.

import { readFile, readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const resolve = createRequire(import.meta.url).resolve;
const package_ = resolve('lighthouse/package.json');
const root = dirname(package_);
/** Where Lighthouse finds itself at run time. */
const ROOT = '/lighthouse';
/** The parts that it names by paths of these, and of which it lists the folders. */
const PARTS = ['core/audits', 'core/gather/gatherers'];
/** Files of other packages that it reads as text. */
const READ = ['axe-core/axe.min.js', 'js-library-detector/library/libraries.js'];
/** What only Node has, or only Lighthouse's command line, its reports as HTML, or the reports of its mistakes need. */
const LEFT_OUT = /^(stream|zlib|node:.*|puppeteer-core|@sentry\/node|.*\/report-assets\.js)$/;
/** Its languages. Its own English words are in it without them. */
const LOCALES = /[\\/]shared[\\/]localization[\\/]locales\.js$/;

/** The plug-in. */
export const lighthouse = {
  name: 'Lighthouse in a page',
  setup(build) {
    const own = /[\\/]node_modules[\\/]lighthouse[\\/].*\.js$/;
    build.onResolve({ filter: /^(fs|module|path|process|url)$/ }, ({ path }) => ({ path, namespace: 'node' }));
    build.onLoad({ filter: /.*/, namespace: 'node' }, async ({ path }) => ({
      contents: path === 'fs' ? await files() : NODE[path],
      loader: 'js',
    }));
    build.onResolve({ filter: LEFT_OUT }, ({ path, importer }) =>
      own.test(importer) ? { path, namespace: 'not-in-pages' } : undefined,
    );
    build.onLoad({ filter: /.*/, namespace: 'not-in-pages' }, () => ({ contents: 'module.exports = {};', loader: 'js' }));
    build.onLoad({ filter: LOCALES }, () => ({ contents: 'export const locales = {};', loader: 'js' }));
    build.onLoad({ filter: own }, async ({ path }) => {
      const url = `file://${ROOT}${path.slice(root.length).replaceAll('\\', '/')}`;
      let contents = (await readFile(path, 'utf8')).replaceAll('import.meta', () => `({url: ${JSON.stringify(url)}})`);
      // Its own place for those who bundle it.
      if (path.endsWith('config-helpers.js')) contents = replaced(contents, '/* BUILD_REPLACE_BUNDLED_MODULES */', await modules());
      return { contents, loader: 'js' };
    });
  },
};

/** What it needs of Node's modules. Its module names never lie outside of its bundle, which `resolve` tells it by failing. */
const NODE = {
  path: `
    const parts = (path) => path.split('/').reduce((all, part) => {
      if (part === '..') all.pop();
      else if (part !== '.' && part !== '') all.push(part);
      return all;
    }, []);
    export const isAbsolute = (path) => path.startsWith('/');
    export const join = (...paths) => (isAbsolute(paths[0]) ? '/' : '') + parts(paths.join('/')).join('/');
    export const resolve = (...paths) => paths.reduce((all, path) => (isAbsolute(path) ? path : join(all, path)), '/');
    export const dirname = (path) => join(path, '..');
    export const basename = (path, end = '') => path.slice(path.lastIndexOf('/') + 1, path.endsWith(end) ? path.length - end.length : undefined);
    export const extname = (path) => /\\.[^./]*$/.exec(path)?.[0] ?? '';
    export const relative = (from, to) => {
      const [a, b] = [parts(from), parts(to)];
      while (a.length > 0 && a[0] === b[0]) { a.shift(); b.shift(); }
      return [...a.map(() => '..'), ...b].join('/');
    };
    export default { isAbsolute, join, resolve, dirname, basename, extname, relative };`,
  url: `
    export const fileURLToPath = (url) => String(url).replace('file://', '');
    export const pathToFileURL = (path) => new URL('file://' + path);
    export default { fileURLToPath, pathToFileURL };`,
  process: `export default { argv: [], cwd: () => '/', env: {}, browser: true, platform: 'browser' };`,
  module: `
    const known = ${JSON.stringify(READ)};
    const resolve = (name) => {
      if (known.includes(name)) return '/' + name;
      throw new Error('there is no module ' + name);
    };
    export const createRequire = () => ({ resolve });`,
};

/** The files that it reads, and the folders that it lists. */
async function files() {
  const about = JSON.parse(await readFile(package_, 'utf8'));
  const texts = {
    [`${ROOT}/package.json`]: JSON.stringify({ name: about.name, version: about.version }),
  };
  for (const name of READ) texts[`/${name}`] = await readFile(createRequire(package_).resolve(name), 'utf8');
  const folders = { [`${ROOT}/shared/localization/locales`]: ['en-US.json'] };
  for (const part of PARTS) {
    for (const folder of [part, ...(await subfolders(part))]) folders[`${ROOT}/${folder}`] = await scripts(folder);
  }
  return `
    const texts = ${JSON.stringify(texts)};
    const folders = ${JSON.stringify(folders)};
    const found = (all, path) => {
      if (path in all) return all[path];
      throw new Error('the bundle has no ' + path);
    };
    export const readFileSync = (path) => found(texts, path);
    export const readdirSync = (path) => found(folders, path.replace(/\\/$/, ''));
    export default { readFileSync, readdirSync };`;
}

/** Pairs of a name that Lighthouse gives a part of itself, and that part. */
async function modules() {
  const pairs = [];
  for (const part of PARTS) {
    const parent = part.slice('core/'.length);
    for (const folder of [part, ...(await subfolders(part))]) {
      for (const name of await scripts(folder)) {
        const path = `../${parent}${folder.slice(part.length)}/${name}`;
        pairs.push(`[${JSON.stringify(path.replace(/\.js$/, ''))}, import(${JSON.stringify(path)})]`);
      }
    }
  }
  return `[${pairs.join(', ')}]`;
}

async function subfolders(part) {
  const found = await readdir(join(root, part), { recursive: true, withFileTypes: true });
  return found.filter((entry) => entry.isDirectory()).map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(root.length + 1).replaceAll('\\', '/'));
}

async function scripts(folder) {
  const names = await readdir(join(root, folder));
  return names.filter((name) => name.endsWith('.js'));
}

function replaced(text, mark, by) {
  if (!text.includes(mark)) throw new Error(`Lighthouse has no ${mark} any more`);
  return text.replace(mark, () => by);
}
