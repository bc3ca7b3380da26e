// Queries for the log of requests, and the format of its rows.

/** How a status is shown: `404 Not Found` is the caller's fault, `500 …` the daemon's. */
export function tone(status: string): 'good' | 'wait' | 'bad' {
  const first = status.charAt(0);
  return first === '5' ? 'bad' : first === '4' ? 'wait' : 'good';
}

/** How the status of a world is shown. */
export const WORLD_TONES = { ready: 'good', failed: 'bad', rendering: 'accent', queued: 'wait' } as const;

export interface Filter {
  patient_id: string;
  environment_type: string;
  status: string;
  key_id: string;
  /** As a form gives them: a local time without a zone. */
  from: string;
  to: string;
}

/** The filter as the API's query: without empty fields, and with times in milliseconds. */
export function query(filter: Filter, paging: { page: number; limit: number } | undefined): URLSearchParams {
  const query = new URLSearchParams();
  for (const name of ['patient_id', 'environment_type', 'status', 'key_id'] as const) {
    const value = filter[name].trim();
    if (value) query.set(name, value);
  }
  const [from, to] = [Date.parse(filter.from), Date.parse(filter.to)];
  if (!Number.isNaN(from)) query.set('start_time', String(from));
  if (!Number.isNaN(to)) query.set('end_time', String(to));
  if (paging) {
    query.set('page', String(paging.page));
    query.set('limit', String(paging.limit));
  }
  return query;
}
