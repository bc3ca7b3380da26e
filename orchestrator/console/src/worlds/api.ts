// The daemon's API as this page uses it.

import { json } from '../shared/request';

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
  /** How far its world is; nothing once that was deleted. */
  world_status: World['status'] | null;
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

export const api = {
  keys: async () => (await json<{ keys: IntegrationKey[] }>('GET', 'v1/integration-keys')).keys,
  createKey: (name: string, kind: string) => json<NewKey>('POST', 'v1/integration-keys', { name, kind }),
  rotateKey: (id: string, seconds: number) =>
    json<NewKey>('POST', `v1/integration-keys/${encodeURIComponent(id)}/rotate`, { keep_old_for: seconds }),
  revokeKey: (id: string) => json<IntegrationKey>('DELETE', `v1/integration-keys/${encodeURIComponent(id)}`),
  requests: (query: URLSearchParams) => json<RequestPage>('GET', `v1/requests?${query}`),
  /** Whether worlds can be made on this host. */
  renderer: () => json<{ can_render: boolean; image: string }>('GET', 'console/api/worlds'),
  world: (id: string) => json<World>('GET', `v1/worlds/${encodeURIComponent(id)}`),
};
