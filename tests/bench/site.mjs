// The page everybody visits: small, local, with a style sheet and a script of its own.

import http from 'node:http';

const PAGES = {
  '/': ['text/html', `<!doctype html><title>Bench</title><link rel="stylesheet" href="/style.css"><script src="/script.js"></script>
<h1>A page</h1>${'<p>Some text, and a <a href="/">link</a>.</p>'.repeat(40)}`],
  '/style.css': ['text/css', 'body { font-family: sans-serif; color: #222 } h1 { border-bottom: 1px solid #888 }'],
  '/script.js': ['text/javascript', 'document.addEventListener("DOMContentLoaded", () => { document.body.dataset.ready = "yes" })'],
};

/** Serves the page on an address that containers reach too; answers {url, close}. */
export async function serveSite(address) {
  const server = http.createServer((request, reply) => {
    const [type, text] = PAGES[request.url] ?? ['text/plain', ''];
    reply.writeHead(PAGES[request.url] ? 200 : 404, { 'content-type': type, 'cache-control': 'no-store' });
    reply.end(text);
  });
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, address, resolve));
  return { url: `http://${address}:${server.address().port}/`, close: () => server.close() };
}
