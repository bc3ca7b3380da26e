// What a value looks like: its type in words, and its members as a list that unfolds.

import { inline, make } from '../shared/dom';
import type { Schema } from './openapi';
import { prose } from './prose';

export class Schemas {
  constructor(private readonly named: Record<string, Schema>) {}

  /** A schema without references at its top, and without `null`, which its type mentions. */
  resolve(schema: Schema): Schema {
    let found = schema;
    for (let depth = 0; depth < 8; depth++) {
      const name = found.$ref?.split('/').at(-1);
      if (name) {
        const { $ref: _, ...own } = found;
        found = { ...this.named[name], ...own };
        continue;
      }
      const others = found.anyOf?.filter((one) => one.type !== 'null');
      const only = others?.length === 1 ? others[0] : found.allOf?.length === 1 ? found.allOf[0] : undefined;
      if (!only) break;
      const { anyOf: _any, allOf: _all, ...own } = found;
      found = { ...only, ...own };
    }
    return found;
  }

  /** The type in a few words. */
  type(schema: Schema): string {
    const whole = this.resolve(schema);
    const values = this.values(whole);
    if (values) return values.map((value) => JSON.stringify(value)).join(' | ');
    const variants = whole.oneOf ?? whole.anyOf;
    if (variants) return [...new Set(variants.map((one) => this.type(one)))].join(' | ');
    const types = [whole.type ?? (whole.properties ? 'object' : 'any')].flat().filter((type) => type !== 'null');
    return types
      .map((type) => (type === 'array' && whole.items ? `array of ${this.type(whole.items)}` : whole.format === 'binary' ? 'bytes' : type))
      .join(' | ');
  }

  /** The members of an object, of one in an array, or of the variants of one. */
  members(schema: Schema): { name: string; schema: Schema; required: boolean }[] {
    const whole = this.resolve(schema);
    if (whole.properties) {
      return Object.entries(whole.properties).map(([name, member]) => ({ name, schema: member, required: whole.required?.includes(name) ?? false }));
    }
    if (whole.items) return this.members(whole.items);
    const variants = [...(whole.allOf ?? []), ...(whole.oneOf ?? []), ...(whole.anyOf ?? [])];
    const found = new Map(variants.flatMap((one) => this.members(one)).map((member) => [member.name, member]));
    return [...found.values()];
  }

  /** The members as a list; each that has members of its own unfolds. */
  list(schema: Schema): HTMLElement | undefined {
    const members = this.members(schema);
    if (members.length === 0) return undefined;
    return make('ul', { class: 'members' }, ...members.map((member) => this.#member(member)));
  }

  #member({ name, schema, required }: { name: string; schema: Schema; required: boolean }): HTMLElement {
    const whole = this.resolve(schema);
    const head = make('p', { class: 'member' }, make('code', { class: 'field' }, name), make('span', { class: 'type' }, this.type(schema)), ...(required ? [make('span', { class: 'required' }, 'required')] : []));
    const about = schema.description ?? whole.description ?? '';
    const bounds = this.bounds(whole);
    const made = make('li', {}, head, ...prose(about), ...(bounds ? [make('p', { class: 'note' }, ...inline(bounds))] : []));
    if (this.members(schema).length) {
      const inner = make('details', {}, make('summary', {}, `Members of ${name}`));
      // Types may contain themselves, so what is inside waits until somebody looks.
      inner.addEventListener('toggle', () => inner.children.length === 1 && inner.append(this.list(schema) ?? ''), { once: true });
      made.append(inner);
    }
    return made;
  }

  /** Its limits and its default, in words. */
  bounds(schema: Schema): string {
    const { minimum, maximum, minLength, maxLength, minItems, maxItems } = schema;
    const range = (least: number | undefined, most: number | undefined, unit: string): string[] => {
      if (least !== undefined && most !== undefined) return [`${least} to ${most}${unit}`];
      if (most !== undefined) return [`at most ${most}${unit}`];
      return least ? [`at least ${least}${unit}`] : [];
    };
    const said = [...range(minimum, maximum, ''), ...range(minLength, maxLength, ' characters'), ...range(minItems, maxItems, ' items')];
    if (schema.default !== undefined && schema.default !== null) said.push(`default \`${JSON.stringify(schema.default)}\``);
    const text = said.join('; ');
    return text && `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
  }

  /** The values of an enumeration. */
  values(schema: Schema): unknown[] | undefined {
    if (schema.const !== undefined) return [schema.const];
    if (schema.enum) return schema.enum.filter((value) => value !== null);
    const variants = schema.oneOf ?? schema.anyOf;
    const found = variants?.map((one) => this.values(this.resolve(one)));
    return found?.every((one) => one !== undefined) ? found.flat() : undefined;
  }
}
