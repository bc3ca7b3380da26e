// The description of the interface, as far as the page reads it.

export interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: boolean | Schema;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  default?: unknown;
  format?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
}

export interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required?: boolean;
  description?: string;
  schema: Schema;
}

export interface Answer {
  description: string;
  content?: Record<string, { schema?: Schema }>;
}

export interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  parameters: Parameter[];
  security: Record<string, unknown>[];
  requestBody?: { required: boolean; content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<string, Answer>;
}

export interface Description {
  info: { title: string; version: string; description: string };
  servers: { url: string }[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

/** One call: a method of a path. */
export interface Call {
  method: string;
  path: string;
  operation: Operation;
}

export function callsOf(description: Description): Call[] {
  return Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
}

/** A call that becomes a websocket. */
export const isSocket = ({ operation }: Call): boolean => '101' in operation.responses;

/** Which key a call takes, and whether it does without. */
export function keyOf({ operation }: Call): { kind: 'service' | 'integration' | 'none'; optional: boolean } {
  const schemes = operation.security.flatMap((scheme) => Object.keys(scheme));
  // The empty one: none is needed.
  const optional = operation.security.length === 0 || operation.security.some((scheme) => Object.keys(scheme).length === 0);
  if (schemes.includes('integrationKey')) return { kind: 'integration', optional };
  return { kind: schemes.includes('serviceKey') ? 'service' : 'none', optional };
}

export const KEY_HEADERS = { service: 'service-secret-key', integration: 'x-api-key' } as const;

/** The body that a call takes, if it takes one. */
export function bodyOf({ operation }: Call): { type: string; schema: Schema; example?: unknown } | undefined {
  const [found] = Object.entries(operation.requestBody?.content ?? {});
  return found && { type: found[0], ...found[1] };
}

/** The media types of a call's success, the first one first. */
export function answersOf({ operation }: Call): string[] {
  const [, good] = Object.entries(operation.responses).find(([status, { content }]) => status.startsWith('2') && content) ?? [];
  return Object.keys(good?.content ?? {});
}
