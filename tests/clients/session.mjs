// What every Node flow shares: the session's REST calls as a user would write them, and the checks.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { inflateSync } from 'node:zlib';

/** The bytes every flow uploads. */
export const UPLOAD = Buffer.from('warmpool upload\n'.repeat(512));

/** Name of the uploaded file, also as the page must see it. */
export const UPLOAD_NAME = 'upload note.txt';

/** The settings a flow is started with; everything comes from the environment. */
export function settings() {
  const env = process.env;
  for (const name of ['WARMPOOL_URL', 'WARMPOOL_SECRET_KEY', 'SITE_URL']) {
    assert.ok(env[name], `${name} must be set`);
  }
  return {
    base: env.WARMPOOL_URL.replace(/\/$/, ''),
    key: env.WARMPOOL_SECRET_KEY,
    site: env.SITE_URL.replace(/\/$/, ''),
    end: env.END ?? 'close',
    headless: env.HEADLESS === 'true',
    browser: env.BROWSER_TYPE ?? 'chromium',
    // 'full' runs every step, 'attach' only reads the first tab of a session that exists already.
    flow: env.FLOW ?? 'full',
  };
}

/** One session, spoken to over REST. */
export class Session {
  constructor({ base, key }, body) {
    this.base = base;
    this.key = key;
    Object.assign(this, body);
  }

  /** Asks for a session; `kind` is '' or 'webdriver/'. */
  static async create(settings, kind, body) {
    const reply = await fetch(`${settings.base}/sessions/${kind}create`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'service-secret-key': settings.key },
      body: JSON.stringify({ browser_type: settings.browser, ...body }),
    });
    const text = await reply.text();
    assert.equal(reply.status, 200, `create answered ${reply.status}: ${text}`);
    return new Session(settings, JSON.parse(text));
  }

  async request(method, path, body) {
    const reply = await fetch(`${this.base}/sessions/${this.session_id}/${path}`, {
      method,
      headers: { 'service-secret-key': this.key },
      body,
    });
    assert.ok(reply.ok, `${method} ${path} answered ${reply.status}`);
    return reply;
  }

  /** Puts a file beside the browser; answers the path that a file input takes. */
  async putFile(name, bytes) {
    const reply = await this.request('PUT', `files/${encodeURIComponent(name)}`, bytes);
    return (await reply.json()).path;
  }

  /** Waits for a complete download and answers its bytes. */
  async download(name) {
    const found = await until(`download ${name}`, async () => {
      const files = await (await this.request('GET', 'files')).json();
      return files.find((file) => file.source === 'download' && file.name === name && file.complete);
    });
    const reply = await this.request('GET', `files/${encodeURIComponent(name)}`);
    const bytes = Buffer.from(await reply.arrayBuffer());
    assert.equal(bytes.length, found.size, 'the list tells the size of the file');
    return bytes;
  }
}

/** Polls `probe` until it answers something true, for at most this many seconds. */
export async function until(what, probe, seconds = 15) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`gave up waiting for ${what}`);
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** Checks that `bytes` is a PNG with something on it, of the given size if one is given. */
export function checkPng(bytes, size) {
  const png = Buffer.from(bytes);
  assert.equal(png.subarray(1, 4).toString(), 'PNG', 'screenshot is a PNG');
  const width = png.readUInt32BE(16);
  const height = png.readUInt32BE(20);
  if (size) assert.deepEqual({ width, height }, size, 'screenshot has the size of the page');
  const parts = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') {
      parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
    }
  }
  // A blank sheet has a handful of byte values however its lines are filtered; text has dozens.
  const values = new Set(inflateSync(Buffer.concat(parts)));
  assert.ok(values.size > 16, `screenshot is blank (${values.size} byte values)`);
  return { width, height };
}

/** Checks that `bytes` is a whole PDF. */
export function checkPdf(bytes) {
  const pdf = Buffer.from(bytes);
  assert.equal(pdf.toString('latin1', 0, 5), '%PDF-', 'a PDF has its head');
  assert.ok(pdf.toString('latin1', pdf.length - 32).includes('%%EOF'), 'a PDF has its end');
  assert.ok(pdf.length > 2000, 'a PDF of a page with text is not empty');
  return pdf.length;
}

/** Runs a flow, prints its one line of results, and exits with its outcome. */
export async function run(flow) {
  // A hung client must not hang the suite.
  const watchdog = setTimeout(() => fail(new Error('the flow took longer than 110 s')), 110_000);
  try {
    const results = await flow(settings());
    clearTimeout(watchdog);
    process.stdout.write(`${JSON.stringify(results)}\n`, () => process.exit(0));
  } catch (error) {
    fail(error);
  }
}

function fail(error) {
  process.stderr.write(`${error.stack ?? error}\n`, () => process.exit(1));
}
