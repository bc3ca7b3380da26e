// The daemon's API as this page uses it.

import { sentence } from '../shared/text';

export interface IntegrationKey {
  key_id: string;
  name: string;
  state: 'ACTIVE' | 'REVOKED';
  kind: 'live' | 'test';
  /** Shortened. */
  key: string;
  created_at: number;
  last_used_at: number | null;
  last_used: string | null;
  worlds_generated: number;
}

export interface NewKey extends IntegrationKey {
  secret: string;
}

export interface LoggedRequest {
  timestamp: number;
  /** Nothing once the patient was deleted. */
  patient_id: string | null;
  environment_type: string | null;
  payload: string | null;
  key: string | null;
  status: string;
  latency: string;
  world_id: string | null;
}

export interface RequestPage {
  requests: LoggedRequest[];
  meta: { totalPages: number; totalRecords: number; currentPage: number };
}

export interface World {
  world_id: string;
  status: 'queued' | 'rendering' | 'ready' | 'failed';
  progress?: number;
  environment_type?: string;
  viewer_url?: string | null;
  assets?: { thumbnail_url?: string | null };
  items?: { kind: string; label: string }[];
  error?: { message?: string } | null;
}

/** The daemon refused. */
export class Refusal extends Error {
  constructor(readonly status: number, message: string, readonly field: string | null) {
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
const ROOT = new URL('..', location.href);
const OURS = { 'x-warmpool-console': '1' };

export async function request(method: string, path: string, init: RequestInit = {}): Promise<Response> {
  let reply: Response;
  try {
    const headers = { ...OURS, ...(init.headers as Record<string, string> | undefined) };
    reply = await fetch(new URL(path, ROOT), { ...init, method, headers, cache: 'no-store', credentials: 'same-origin' });
  } catch (error) {
    throw init.signal?.aborted ? error : new Unreachable();
  }
  if (reply.ok) return reply;
  const body = (await reply.json().catch(() => undefined)) as { error?: { message?: string; field?: string | null } } | undefined;
  // A proxy whose daemon is away answers something else than the daemon's errors.
  if (!body?.error && reply.status >= 502) throw new Unreachable();
  throw new Refusal(reply.status, sentence(body?.error?.message ?? `The daemon answered ${reply.status}`), body?.error?.field ?? null);
}

async function json<T>(method: string, path: string, body?: object): Promise<T> {
  const init = body ? { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) } : {};
  const reply = await request(method, path, init);
  return (reply.status === 204 ? undefined : await reply.json()) as T;
}

export const api = {
  who: () => json<{ name: string }>('GET', 'console/sign-in'),
  signIn: (key: string) => json<void>('POST', 'console/sign-in', { key }),
  signOut: () => json<void>('DELETE', 'console/sign-in'),
  keys: async () => (await json<{ keys: IntegrationKey[] }>('GET', 'v1/integration-keys')).keys,
  createKey: (name: string, kind: string) => json<NewKey>('POST', 'v1/integration-keys', { name, kind }),
  rotateKey: (id: string, seconds: number) =>
    json<NewKey>('POST', `v1/integration-keys/${encodeURIComponent(id)}/rotate`, { keep_old_for: seconds }),
  revokeKey: (id: string) => json<IntegrationKey>('DELETE', `v1/integration-keys/${encodeURIComponent(id)}`),
  requests: (query: URLSearchParams) => json<RequestPage>('GET', `v1/requests?${query}`),
  world: (id: string) => json<World>('GET', `v1/worlds/${encodeURIComponent(id)}`),
};
