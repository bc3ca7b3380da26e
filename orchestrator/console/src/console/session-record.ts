// Sessions as the API shows them.

import type { Labels } from './labels';

/** The profile that a session began with, and how its saves went. */
export interface SessionProfile {
  name: string;
  is_written: boolean;
  saved_at?: number;
  error?: string;
}

export interface Session {
  session_id: string;
  status: string;
  key_id: string;
  reason?: string;
  message?: string;
  kind: 'devtools' | 'webdriver' | 'task';
  browser_type: 'chromium' | 'firefox' | 'webkit';
  headless: boolean;
  url: string | null;
  page_error?: string;
  timestamp: number;
  ended_at?: number;
  execution_time: number;
  session_timeout: number;
  idle_timeout?: number;
  keep_alive: boolean;
  recording: boolean;
  logs: boolean;
  egress?: { bytes_in: number; bytes_out: number; refused?: { host: string; port: number; reason: string; count: number }[] };
  ads?: { blocked: number };
  service_passcode?: string;
  app_name?: string;
  metadata?: Labels;
  profile?: SessionProfile;
}

/** One session, with its URLs while it lives. */
export interface SessionDetail extends Session {
  protocol: string;
  websocket_url?: string;
  connect_url?: string;
  connect_headers?: Record<string, string>;
  livestream_url?: string;
  time_left?: number;
}

export const lives = ({ status }: { status: string }): boolean => ['starting', 'running', 'unknown'].includes(status);

/** A session without what goes on changing while it lives. */
export function steady(session: Session): Session {
  if (!lives(session)) return session;
  const { egress, ads, ...rest } = session;
  return { ...rest, execution_time: 0 };
}

const NAMES: Record<string, string> = { chromium: 'Chromium', firefox: 'Firefox', webkit: 'WebKit' };

/** An engine as people call it. */
export const engineName = (engine: string): string => NAMES[engine] ?? engine;

export function browserName({ browser_type: type, headless }: { browser_type: string; headless: boolean }): string {
  return `${engineName(type)}${headless ? ', headless' : ''}`;
}
