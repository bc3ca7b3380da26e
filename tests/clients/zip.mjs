// Reads a zip that was made as a stream, by its table of contents.

import assert from 'node:assert/strict';
import { inflateRawSync } from 'node:zlib';

/** The files of a zip, by their names. */
export function unzip(bytes) {
  const end = bytes.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  assert.ok(end >= 0, 'a zip has its end');
  const files = {};
  let at = bytes.readUInt32LE(end + 16);
  for (let left = bytes.readUInt16LE(end + 10); left > 0; left -= 1) {
    const [method, size] = [bytes.readUInt16LE(at + 10), bytes.readUInt32LE(at + 20)];
    const [name, extra, comment] = [28, 30, 32].map((offset) => bytes.readUInt16LE(at + offset));
    const head = bytes.readUInt32LE(at + 42);
    const from = head + 30 + bytes.readUInt16LE(head + 26) + bytes.readUInt16LE(head + 28);
    const packed = bytes.subarray(from, from + size);
    files[bytes.toString('utf8', at + 46, at + 46 + name)] = method === 0 ? packed : inflateRawSync(packed);
    at += 46 + name + extra + comment;
  }
  return files;
}
