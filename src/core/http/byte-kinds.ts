/** Kinds of bytes: those of a token (RFC 9110 section 5.6.2), of a field value (section 5.5), and of a target as received. */
export const TOKEN = 1
export const VALUE = 2
export const TARGET = 4

/** The kinds of each byte, as a bit mask. */
export const kinds = new Uint8Array(256)
for (let code = 0; code < 256; code++) {
  const text = String.fromCharCode(code)
  if (/[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(text)) kinds[code] = TOKEN | VALUE
  else if (/[\t\x20-\x7e\x80-\xff]/.test(text)) kinds[code] = VALUE
  if (code > 0x20 && code !== 0x7f) kinds[code] = (kinds[code] ?? 0) | TARGET
}
