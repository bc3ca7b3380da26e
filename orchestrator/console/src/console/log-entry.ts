// Entries of a session's log, as the API has them. Pure.

interface Moment {
  seq: number;
  /** Unix milliseconds. */
  time: number;
}

interface Place {
  url?: string;
  line?: number;
}

export type LogEntry =
  | (Moment & Place & { type: 'console'; level: 'error' | 'warning' | 'info' | 'debug'; text: string })
  | (Moment & Place & { type: 'page_error'; text: string })
  | (Moment & { type: 'request'; method: string; url: string; resource: string; status?: number; failure?: string; duration: number; bytes?: number })
  | (Moment & { type: 'download'; name: string; url?: string });

export type Tone = 'good' | 'wait' | 'bad' | 'off';

/** How an entry is to be taken. */
export function tone(entry: LogEntry): Tone {
  switch (entry.type) {
    case 'console':
      return { error: 'bad' as const, warning: 'wait' as const, info: 'off' as const, debug: 'off' as const }[entry.level];
    case 'page_error':
      return 'bad';
    case 'request':
      return entry.failure !== undefined || (entry.status ?? 0) >= 400 ? 'bad' : 'good';
    case 'download':
      return 'good';
  }
}

/** Where an entry comes from, if that is known. */
export function places({ url, line }: Place): string | undefined {
  return url && line !== undefined ? `${url}:${line}` : url;
}
