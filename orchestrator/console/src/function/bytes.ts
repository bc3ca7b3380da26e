// What bytes are, and bytes as text.

const SIGNATURES: [type: string, offset: number, bytes: number[]][] = [
  ['image/png', 0, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ['image/jpeg', 0, [0xff, 0xd8, 0xff]],
  ['image/gif', 0, [0x47, 0x49, 0x46, 0x38]],
  ['image/webp', 8, [0x57, 0x45, 0x42, 0x50]],
  ['application/pdf', 0, [0x25, 0x50, 0x44, 0x46, 0x2d]],
  ['application/zip', 0, [0x50, 0x4b, 0x03, 0x04]],
];
/** How many bytes become one text: the arguments of a function have a limit. */
const PIECE = 0x8000;

/** The media type of bytes whose beginning says it. */
export function mediaType(bytes: Uint8Array): string {
  const known = SIGNATURES.find(([, offset, signature]) => signature.every((byte, at) => bytes[offset + at] === byte));
  return known?.[0] ?? 'application/octet-stream';
}

export function base64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += PIECE) text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  return btoa(text);
}
