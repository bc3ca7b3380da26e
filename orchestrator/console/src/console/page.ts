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
  /** Nobody looks at the console: the page closes what it follows, and goes on with it after the next `hello`. */
  rest?(): void;
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

/** Returns what goes from this page to another one, unless somebody has left this page by then. */
export function fromHere(): (address: string) => void {
  const { hash } = location;
  return (address) => {
    if (location.hash === hash) location.hash = address;
  };
}
