// The same call in several languages. Pure.

import { answersOf, bodyOf, type Call, isSocket, KEY_HEADERS, keyOf } from './openapi';

export const LANGUAGES = { curl: 'curl', python: 'Python', javascript: 'JavaScript' } as const;
export type Language = keyof typeof LANGUAGES;

/** What somebody filled in. */
export interface Filled {
  path: Record<string, string>;
  query: [name: string, value: string][];
  headers: [name: string, value: string][];
  /** The body's text, where the call takes one. */
  body: string;
}

/** Parameters that are a path of their own: their slashes lead on. */
const PATHS = new Set(['command', 'path', 'target']);
const VARIABLES = { service: 'WARMPOOL_SECRET_KEY', integration: 'WARMPOOL_INTEGRATION_KEY' } as const;

/** The path of a call: a segment that is not filled in has its name in capitals, which stands out. */
export function pathOf(call: Call, filled: Filled): string {
  const path = call.path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = filled.path[name]?.trim();
    if (!value) return name.toUpperCase();
    return PATHS.has(name) ? value.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(value);
  });
  const query = new URLSearchParams(filled.query.filter(([, value]) => value.trim() !== '')).toString();
  return query ? `${path}?${query}` : path;
}

/** Lines that make the call at this base address. */
export function example(language: Language, call: Call, base: string, filled: Filled): string {
  const url = `${base.replace(/\/$/, '')}${pathOf(call, filled)}`;
  if (isSocket(call)) return socket(language, call, url.replace(/^http/, 'ws'), filled);
  return { curl, python, javascript }[language](call, url, filled);
}

/** The variable with the key, and its header. A key that only an operator's setting asks for is left out. */
function key(call: Call): [header: string, variable: string][] {
  const { kind, optional } = keyOf(call);
  if (kind === 'none' || (optional && kind === 'service')) return [];
  return [[KEY_HEADERS[kind], VARIABLES[kind]]];
}

/** The body of JSON, if it can be read; as it is where it cannot. */
function parsed(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

type Kind = 'json' | 'bytes' | 'none';
function kindOf(call: Call, filled: Filled): Kind {
  const body = bodyOf(call);
  if (!body) return 'none';
  if (body.type !== 'application/json') return 'bytes';
  return filled.body.trim() === '' ? 'none' : 'json';
}

const isText = (call: Call): boolean => (answersOf(call)[0] ?? 'text/plain').startsWith('text/');
const isBytes = (call: Call): boolean => {
  const [first] = answersOf(call);
  return first !== undefined && first !== 'application/json' && !first.startsWith('text/');
};

const shell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const quoted = (text: string): string => JSON.stringify(text);

function curl(call: Call, url: string, filled: Filled): string {
  const lines = [`curl ${call.method === 'GET' ? '' : `-X ${call.method} `}${shell(url)}`];
  for (const [header, variable] of key(call)) lines.push(`-H "${header}: $${variable}"`);
  for (const [name, value] of filled.headers) if (value) lines.push(`-H ${shell(`${name}: ${value}`)}`);
  const kind = kindOf(call, filled);
  if (kind === 'json') lines.push(`-H 'content-type: application/json'`, `-d ${shell(filled.body)}`);
  if (kind === 'bytes') lines.push(`-H 'content-type: ${bodyOf(call)?.type}'`, '--data-binary @FILE');
  if (isBytes(call)) lines.push('--output FILE');
  return lines.join(' \\\n  ');
}

/** A value of JSON as Python writes it. */
export function pythonLiteral(value: unknown, indent = ''): string {
  if (value === null) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (Array.isArray(value)) return `[${value.map((one) => pythonLiteral(one, indent)).join(', ')}]`;
  if (typeof value === 'object') {
    const inner = `${indent}    `;
    const members = Object.entries(value).map(([name, one]) => `${inner}${quoted(name)}: ${pythonLiteral(one, inner)},\n`);
    return members.length ? `{\n${members.join('')}${indent}}` : '{}';
  }
  return JSON.stringify(value);
}

function python(call: Call, url: string, filled: Filled): string {
  const kind = kindOf(call, filled);
  const modules = [...(kind === 'json' || (!isText(call) && !isBytes(call)) ? ['json'] : []), ...(key(call).length ? ['os'] : []), 'urllib.request'];
  const headers = [
    ...key(call).map(([header, variable]) => `        ${quoted(header)}: os.environ[${quoted(variable)}],\n`),
    ...filled.headers.filter(([, value]) => value).map(([name, value]) => `        ${quoted(name)}: ${quoted(value)},\n`),
    // Without one, urllib would say that it is a form.
    ...(kind === 'none' ? [] : [`        "content-type": ${quoted(bodyOf(call)?.type ?? '')},\n`]),
  ];
  const value = parsed(filled.body);
  const data = {
    json: value ? `    data=json.dumps(${pythonLiteral(value.value, '    ')}).encode(),\n` : `    data=${quoted(filled.body)}.encode(),\n`,
    bytes: '    data=open("FILE", "rb").read(),\n',
    none: '',
  }[kind];
  const read = isBytes(call) ? 'open("FILE", "wb").write(reply.read())' : isText(call) ? 'print(reply.status, reply.read().decode())' : 'print(json.load(reply))';
  return `${modules.map((name) => `import ${name}\n`).join('')}
request = urllib.request.Request(
    ${quoted(url)},
    method=${quoted(call.method)},
${headers.length ? `    headers={\n${headers.join('')}    },\n` : ''}${data})
with urllib.request.urlopen(request) as reply:
    ${read}`;
}

function javascript(call: Call, url: string, filled: Filled): string {
  const kind = kindOf(call, filled);
  const headers = [
    ...key(call).map(([header, variable]) => `    '${header}': process.env.${variable},\n`),
    ...filled.headers.filter(([, value]) => value).map(([name, value]) => `    '${name}': ${quoted(value)},\n`),
    ...(kind === 'none' ? [] : [`    'content-type': '${bodyOf(call)?.type}',\n`]),
  ];
  const value = parsed(filled.body);
  const body = {
    json: value ? `  body: JSON.stringify(${JSON.stringify(value.value, null, 2).replaceAll('\n', '\n  ')}),\n` : `  body: ${quoted(filled.body)},\n`,
    bytes: "  body: await readFile('FILE'),\n",
    none: '',
  }[kind];
  const files = [...(kind === 'bytes' ? ['readFile'] : []), ...(isBytes(call) ? ['writeFile'] : [])];
  const read = isBytes(call) ? "await writeFile('FILE', Buffer.from(await reply.arrayBuffer()));" : `console.log(${isText(call) ? 'reply.status, await reply.text()' : 'await reply.json()'});`;
  const method = call.method === 'GET' ? '' : `  method: '${call.method}',\n`;
  const options = `${method}${headers.length ? `  headers: {\n${headers.join('')}  },\n` : ''}${body}`;
  return `${files.length ? `import { ${files.join(', ')} } from 'node:fs/promises';\n\n` : ''}const reply = await fetch(${quoted(url)}${options ? `, {\n${options}}` : ''});
if (!reply.ok) throw new Error(await reply.text());
${read}`;
}

/** A websocket, where the client library of a browser would open it. */
function socket(language: Language, call: Call, url: string, filled: Filled): string {
  const keys = key(call);
  const others = filled.headers.filter(([, value]) => value);
  if (language === 'curl') {
    const lines = [`curl --http1.1 --no-buffer --include ${shell(url.replace(/^ws/, 'http'))}`];
    for (const [header, variable] of keys) lines.push(`-H "${header}: $${variable}"`);
    for (const [name, value] of others) lines.push(`-H ${shell(`${name}: ${value}`)}`);
    lines.push("-H 'connection: Upgrade' -H 'upgrade: websocket'", "-H 'sec-websocket-version: 13' -H 'sec-websocket-key: V2FybXBvb2wgd2FybXBvb2w='");
    return lines.join(' \\\n  ');
  }
  const head = (separator: string, variable: (name: string) => string) =>
    [...keys.map(([header, name]) => `${quoted(header)}${separator}${variable(name)}`), ...others.map(([name, value]) => `${quoted(name)}${separator}${quoted(value)}`)].join(', ');
  if (language === 'python') {
    const headers = head(': ', (name) => `os.environ[${quoted(name)}]`);
    return `${headers.includes('os.') ? 'import os\n' : ''}from websockets.sync.client import connect

with connect(${quoted(url)}${headers ? `, additional_headers={${headers}}` : ''}) as socket:
    print(socket.recv())`;
  }
  const headers = head(': ', (name) => `process.env.${name}`);
  return `import WebSocket from 'ws';

const socket = new WebSocket(${quoted(url)}${headers ? `, { headers: { ${headers} } }` : ''});
socket.on('message', (message) => console.log(String(message)));`;
}
