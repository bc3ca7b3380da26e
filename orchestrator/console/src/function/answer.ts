// What the daemon gets of the value that a call's code returns.

import { base64, mediaType } from './bytes.js';

/** A body and its media type. The daemon reads this (`orchestrator/pages/src/code/runner.rs`). */
export type Answer = { type: string; text: string } | { type: string; base64: string } | { large: true };

const JSON_TYPE = 'application/json';
const TEXT_TYPE = 'text/plain; charset=utf-8';

/** The answer for a value, of at most `limit` bytes. `{data, type}` is data of that type; all else says itself what it is. */
export async function answer(value: unknown, limit: number): Promise<Answer> {
  if (typeof value === 'object' && value !== null && 'data' in value && 'type' in value && typeof value.type === 'string') {
    return body(value.data, value.type, limit);
  }
  return body(value, undefined, limit);
}

async function body(data: unknown, type: string | undefined, limit: number): Promise<Answer> {
  const bytes = await bytesOf(data);
  if (bytes !== undefined) {
    if (bytes.length > limit) return { large: true };
    const own = data instanceof Blob && data.type !== '' ? data.type : undefined;
    return { type: type ?? own ?? mediaType(bytes), base64: base64(bytes) };
  }
  const [text, otherwise] = textOf(data);
  if (new Blob([text]).size > limit) return { large: true };
  return { type: type ?? otherwise, text };
}

async function bytesOf(data: unknown): Promise<Uint8Array | undefined> {
  if (data instanceof Blob) return new Uint8Array(await data.arrayBuffer());
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return undefined;
}

function textOf(data: unknown): [text: string, type: string] {
  if (typeof data === 'string') return [data, TEXT_TYPE];
  // Functions and symbols are nothing in JSON, as `undefined` is.
  const text = JSON.stringify(data);
  return text === undefined ? ['', TEXT_TYPE] : [text, JSON_TYPE];
}
