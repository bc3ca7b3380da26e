// The guides as pages: Markdown from the source, which `build.mjs` puts beside the description of the interface.

import { readFile, readdir } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { Marked } from 'marked';

const FOLDER = '../docs';
/** Pages that stand elsewhere in the source, by the names that they have here. */
const ELSEWHERE = { start: '../../README.md', recordings: '../../examples/tasks/README.md' };

/** Every guide: its name, its title, and its text. The list begins with those of the guides' own list, in its order. */
export async function guides() {
  const list = await readFile(`${FOLDER}/README.md`, 'utf8');
  const files = (await readdir(FOLDER)).filter((file) => file.endsWith('.md') && file !== 'README.md');
  const order = [...list.matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, file]) => file);
  const place = (file) => (order.includes(file) ? order.indexOf(file) : order.length);
  const names = files.sort((a, b) => place(a) - place(b) || a.localeCompare(b));
  const sources = [['start', ELSEWHERE.start], ...names.map((file) => [file.slice(0, -3), `${FOLDER}/${file}`]), ['recordings', ELSEWHERE.recordings]];
  return Promise.all(
    sources.map(async ([name, path]) => {
      const text = await readFile(path, 'utf8');
      const title = /^# (.*)$/m.exec(text)?.[1] ?? name;
      return { name, title: name === 'start' ? 'Start' : title, path: resolve(path), text };
    }),
  );
}

/** The pictures that guides show. */
export async function pictures() {
  return (await readdir(FOLDER)).filter((file) => /\.(png|jpg)$/.test(file)).map((name) => ({ name, path: `${FOLDER}/${name}` }));
}

/** A guide's content as HTML without inline styles and scripts. Links lead to what is served; the rest of the source is named only. */
export function html(guide, all) {
  const seen = new Map();
  const id = (text) => {
    const slug = text.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').trim().replace(/\s/g, '-');
    const times = seen.get(slug) ?? 0;
    seen.set(slug, times + 1);
    return times ? `${slug}-${times}` : slug;
  };
  const renderer = {
    heading({ tokens, depth }) {
      const text = this.parser.parseInline(tokens);
      // An apostrophe is an entity here, and no entity has a place in an id.
      return `<h${depth} id="${id(text.replace(/<[^>]*>|&[#\w]+;/g, ''))}">${text}</h${depth}>\n`;
    },
    link({ href, tokens }) {
      const text = this.parser.parseInline(tokens);
      const to = target(href, guide, all);
      return to === undefined ? text : `<a href="${escaped(to)}">${text}</a>`;
    },
    image({ href, text }) {
      // Pictures stand beside the guides.
      return `<img src="${escaped(basename(href))}" alt="${escaped(text)}" loading="lazy">`;
    },
    code({ text, lang }) {
      const label = lang ? ` aria-label="${escaped(lang)}"` : ' aria-label="Example"';
      return `<pre tabindex="0" role="group"${label}><code>${escaped(text)}</code></pre>\n`;
    },
    table({ header, rows }) {
      const cell = (tag, scope = '') => (one) => `<${tag}${scope}>${this.parser.parseInline(one.tokens)}</${tag}>`;
      const head = header.map(cell('th', ' scope="col"')).join('');
      const body = rows.map((row) => `<tr>${row.map(cell('td')).join('')}</tr>`).join('\n');
      return `<div class="scroll" tabindex="0" role="group" aria-label="Table"><table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>\n`;
    },
    // Comments say how the tests treat a block.
    html: () => '',
  };
  return new Marked({ renderer }).parse(guide.text);
}

/** Where a link of a guide leads here; nothing if its target is not served. */
function target(href, guide, all) {
  if (/^[a-z]+:|^#/.test(href)) return href;
  const [file, anchor] = href.split('#');
  const path = resolve(dirname(guide.path), file);
  const rest = anchor ? `#${anchor}` : '';
  if (path === resolve(FOLDER, 'README.md')) return '../docs';
  const found = all.find((one) => one.path === path);
  return found && `${found.name}${rest}`;
}

const escaped = (text) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
