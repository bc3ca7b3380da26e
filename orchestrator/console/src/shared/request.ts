// Calls to the daemon's API by somebody who is signed in.

import { attended } from './attention';
import { sentence } from './text';

/** The daemon refused. */
export class Refusal extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly field: string | null) {
    super(message);
  }
}

/** The daemon did not answer, or something between answered in its place. */
export class Unreachable extends Error {
  constructor() {
    super('Warmpool does not answer.');
  }
}

/** Relative, so that a proxy may serve this page below any path. */
export const ROOT = new URL('..', location.href.split('#')[0]);
/** Shows that a page of the console asks, and whether somebody's act has led to it: else it is no use of the sign-in. */
const OURS = 'x-warmpool-console';

export async function request(method: string, path: string, init: RequestInit = {}): Promise<Response> {
  let reply: Response;
  try {
    const headers = { [OURS]: attended() ? '1' : 'follow', ...(init.headers as Record<string, string> | undefined) };
    reply = await fetch(new URL(path, ROOT), { ...init, method, headers, cache: 'no-store', credentials: 'same-origin' });
  } catch (error) {
    throw init.signal?.aborted ? error : new Unreachable();
  }
  if (reply.ok || reply.status === 304) return reply;
  const body = (await reply.json().catch(() => undefined)) as
    | { error?: { code?: string; message?: string; field?: string | null } }
    | undefined;
  // A proxy whose daemon is away answers something else than the daemon's errors.
  if (!body?.error && reply.status >= 502) throw new Unreachable();
  const { code, message, field } = body?.error ?? {};
  throw new Refusal(reply.status, code ?? '', sentence(message ?? `The daemon answered ${reply.status}`), field ?? null);
}

export async function json<T>(method: string, path: string, body?: unknown): Promise<T> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const init = body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: text };
  const reply = await request(method, path, init);
  return (reply.status === 204 ? undefined : await reply.json()) as T;
}

/** A part of a path. */
export const segment = (text: string): string => encodeURIComponent(text);

/** Saves the daemon's answer under this name. */
export async function download(path: string, name: string): Promise<void> {
  const reply = await request('GET', path);
  save(await reply.blob(), name);
}

export function save(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The browser has taken hold of it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
