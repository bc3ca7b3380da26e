// The page everybody visits: small, local, with a style sheet and a script of its own.

import http from 'node:http';
import { RICH } from './rich.mjs';

const PAGES = {
  ...RICH,
  '/': ['text/html', `<!doctype html><title>Bench</title><link rel="stylesheet" href="/style.css"><script src="/script.js"></script>
<h1>A page</h1>${'<p>Some text, and a <a href="/">link</a>.</p>'.repeat(40)}`],
  '/style.css': ['text/css', 'body { font-family: sans-serif; color: #222 } h1 { border-bottom: 1px solid #888 }'],
  '/turn': ['text/html', `<!doctype html><title>Turned</title><style>html{height:100%;background:#f00}html.turned{background:#00f}</style>
<script>onmousedown = () => document.documentElement.classList.toggle('turned')</script>`],
  '/animated': ['text/html', `<!doctype html><title>In motion</title><style>body{margin:0;height:100vh;font:20px sans-serif}
#box{position:absolute;top:80px;width:160px;height:160px;background:#07a}#clock{position:absolute;left:calc(50% - 60px);top:68%;width:120px;height:120px}</style>
<h1>In motion</h1><p id=count></p><div id=box></div><div id=clock></div>${'<p>Some text, and a <a href="/">link</a>.</p>'.repeat(8)}
<script>let frames = 0; (function draw(now) { frames += 1; count.textContent = frames;
box.style.left = Math.round(now / 4) % 1000 + 'px'; clock.style.background = 'hsl(' + frames * 25 % 360 + ' 90% 50%)';
requestAnimationFrame(draw) })(0)</script>`],
  '/script.js': ['text/javascript', 'document.addEventListener("DOMContentLoaded", () => { document.body.dataset.ready = "yes" })'],
};

/** Sends this many megabytes, as fast as the client takes them. */
async function sendBytes(reply, megabytes) {
  const piece = Buffer.alloc(1e6, 'x');
  reply.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': megabytes * piece.length, 'cache-control': 'no-store' });
  for (let sent = 0; sent < megabytes; sent += 1) {
    if (!reply.write(piece)) await new Promise((resolve) => reply.once('drain', resolve));
  }
  reply.end();
}

/** Serves the page on an address that containers reach too; answers {url, close}. */
export async function serveSite(address) {
  const server = http.createServer((request, reply) => {
    const [path, query] = request.url.split('?');
    if (path === '/bytes') return sendBytes(reply, Number(new URLSearchParams(query).get('megabytes')));
    const page = PAGES[path];
    const [type, text] = page ?? ['text/plain', ''];
    reply.writeHead(page ? 200 : 404, { 'content-type': type, 'cache-control': 'no-store' });
    reply.end(text);
  });
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, address, resolve));
  return { url: `http://${address}:${server.address().port}/`, close: () => server.close() };
}
