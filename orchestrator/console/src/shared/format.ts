// How values are shown. Pure but for the visitor's language and time zone.

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const second = new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'medium' });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

export function moment(timestamp: number): string {
  return day.format(timestamp);
}

export function exactMoment(timestamp: number): string {
  return second.format(timestamp);
}

/** The time of day, with the date where that is another one than today's. */
export function shortMoment(timestamp: number, now = Date.now()): string {
  const sameDay = new Date(timestamp).toDateString() === new Date(now).toDateString();
  return (sameDay ? clock : second).format(timestamp);
}

/** A moment as a part of a file's name, in the visitor's time zone. */
export function fileMoment(timestamp: number): string {
  const date = new Date(timestamp);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}.${two(date.getMinutes())}.${two(date.getSeconds())}`;
}

export function counted(count: number, one: string, many: string): string {
  return `${count.toLocaleString()} ${count === 1 ? one : many}`;
}

/** A duration in the two largest units that say something. */
export function duration(ms: number): string {
  if (ms < 10) return `${Number(ms.toFixed(1))} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** How long ago something was. */
export function ago(timestamp: number, now = Date.now()): string {
  const seconds = Math.max(0, Math.floor((now - timestamp) / 1000));
  if (seconds < 60) return 'just now';
  if (seconds < 3600) return counted(Math.floor(seconds / 60), 'minute ago', 'minutes ago');
  if (seconds < 86_400) return counted(Math.floor(seconds / 3600), 'hour ago', 'hours ago');
  return counted(Math.floor(seconds / 86_400), 'day ago', 'days ago');
}

export function bytes(count: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [value, unit] = [count, 0];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** The badge of a session's or task's status. */
export function statusTone(status: string): 'good' | 'wait' | 'bad' | 'off' | 'accent' {
  switch (status) {
    case 'running':
      return 'accent';
    case 'success':
    case 'completed':
    case 'active':
      return 'good';
    case 'failure':
      return 'bad';
    case 'queued':
    case 'starting':
    case 'unknown':
      return 'wait';
    default:
      return 'off';
  }
}

/** A short form of a long text. */
export function shortened(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
