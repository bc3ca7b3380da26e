// What the pages of the console have in common.

import type { ServerEvent } from '../shared/events';

/** What a page wants to hear of; see http/console/events.rs. */
export type Topic = 'overview' | 'sessions' | 'tasks' | 'keys' | 'log';

export interface Page {
  readonly topics: readonly Topic[];
  readonly title: string;
  /** Called when the page comes into view. `id` is the rest of its address, if any. */
  show(id: string): void;
  /** It goes out of view: from here on it costs nothing. */
  hide(): void;
  /** Called for each event of the daemon. After `hello`, the shown content may be stale. */
  heard(event: ServerEvent): void;
}

/** Who is signed in. */
export interface Account {
  name: string;
  key_id: string;
  role: 'client' | 'operator';
  version: string;
  started_at: number;
}

/** What concerns the whole page: signed out, or the daemon does not answer. */
export type Failed = (error: unknown) => void;
