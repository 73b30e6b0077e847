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

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const COLON = 0x3a

/**
 * Returns the number of field lines (RFC 9112 5) from `at` to the end of the text; -1: something else is among them. A
 * value that holds a line end makes a line too many, so whoever knows how many fields were written finds it. One walk over
 * the whole text costs a fraction of one over each of its parts.
 */
export function fieldLines(text: string, at: number): number {
  let lines = 0
  for (; at < text.length; lines++) {
    const nameAt = at
    while (((kinds[text.charCodeAt(at)] ?? 0) & TOKEN) !== 0) at++
    if (at === nameAt || text.charCodeAt(at) !== COLON || text.charCodeAt(at + 1) !== SPACE)
      return -1
    at += 2
    while (((kinds[text.charCodeAt(at)] ?? 0) & VALUE) !== 0) at++
    if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) return -1
    at += 2
  }
  return lines
}
