// Server-sent events read by `fetch`: unlike `EventSource`, it can send headers and see the status.

export interface ServerEvent {
  type: string;
  data: string;
}

/** Cuts text that arrives in any pieces into events. */
export class EventParser {
  #rest = '';
  #type = '';
  #data: string[] = [];

  push(text: string): ServerEvent[] {
    // A carriage return at the end may be the first half of a line's end.
    const whole = this.#rest + text;
    const held = whole.endsWith('\r') ? '\r' : '';
    const lines = whole.slice(0, whole.length - held.length).split(/\r\n|\r|\n/);
    this.#rest = (lines.pop() ?? '') + held;
    return lines.flatMap((line) => this.#line(line));
  }

  #line(line: string): ServerEvent[] {
    if (line === '') {
      const event = { type: this.#type || 'message', data: this.#data.join('\n') };
      const found = this.#data.length > 0;
      [this.#type, this.#data] = ['', []];
      return found ? [event] : [];
    }
    // U+2028 and U+2029 end no line here, so the dot has to match them too.
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (field === 'event') this.#type = value ?? '';
    else if (field === 'data') this.#data.push(value ?? '');
    return [];
  }
}

/** Calls back for each event until the stream ends, and for each sign of life. */
export async function follow(reply: Response, heard: (event: ServerEvent) => void, alive?: () => void): Promise<void> {
  const reader = reply.body?.getReader();
  if (!reader) return;
  const [parser, decoder] = [new EventParser(), new TextDecoder()];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive?.();
    for (const event of parser.push(decoder.decode(value, { stream: true }))) heard(event);
  }
}
