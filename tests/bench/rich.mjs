// A page of 40 requests and some 1 MB, like many on the web: a style sheet, three scripts that build what is read, and
// pictures that do not compress.

import { crc32, deflateSync } from 'node:zlib';

const SCRIPTS = 3;
const PICTURES = 35;
/** Pixels each way; a picture of noise then has 24 kB. */
const SIDE = 90;
const STYLES = 400;
const PARAGRAPHS = 150;

/** Numbers that look random and are the same in each run. */
function* noise(seed) {
  for (let state = seed * 2654435761 >>> 0 || 1; ; ) {
    state = Math.imul(state ^ state >>> 15, state | 1);
    state ^= state + Math.imul(state ^ state >>> 7, state | 61);
    yield (state ^ state >>> 14) & 255;
  }
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}

function picture(number) {
  const pixels = Buffer.alloc(SIDE * (1 + SIDE * 3));
  const bytes = noise(number + 1);
  for (let at = 0; at < pixels.length; at += 1) pixels[at] = at % (1 + SIDE * 3) === 0 ? 0 : bytes.next().value;
  const header = Buffer.alloc(13);
  header.writeUInt32BE(SIDE, 0);
  header.writeUInt32BE(SIDE, 4);
  header.set([8, 2], 8);
  const signature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');
  return Buffer.concat([signature, chunk('IHDR', header), chunk('IDAT', deflateSync(pixels)), chunk('IEND', Buffer.alloc(0))]);
}

function script(number) {
  const texts = Array.from({ length: PARAGRAPHS }, (_, at) => `Paragraph ${number}.${at}. ${'Some words to be read. '.repeat(8)}`);
  return `for (const text of ${JSON.stringify(texts)}) {
  const paragraph = document.createElement('p');
  paragraph.className = 'p' + document.body.children.length % ${STYLES};
  paragraph.textContent = text;
  document.body.append(paragraph);
}`;
}

const numbered = (count, make) => Array.from({ length: count }, (_, number) => make(number)).join('');
const pictures = numbered(PICTURES, (number) => `<img src="/rich/picture/${number}" width=${SIDE} height=${SIDE}>`);
const scripts = numbered(SCRIPTS, (number) => `<script src="/rich/script/${number}"></script>`);

/** Its parts, by their paths. */
export const RICH = {
  '/rich': ['text/html', `<!doctype html><title>Rich</title><link rel="stylesheet" href="/rich/style"><body>${pictures}${scripts}`],
  '/rich/style': ['text/css', numbered(STYLES, (number) => `.p${number} { margin: ${number % 9}px; color: hsl(${number} 50% 30%) }\n`)],
  ...Object.fromEntries(Array.from({ length: SCRIPTS }, (_, number) => [`/rich/script/${number}`, ['text/javascript', script(number)]])),
  ...Object.fromEntries(Array.from({ length: PICTURES }, (_, number) => [`/rich/picture/${number}`, ['image/png', picture(number)]])),
};
