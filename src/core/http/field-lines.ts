/** Reads the field lines of a message head (RFC 9112 5), of requests and answers alike. */

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

const TAB = 0x09
export const LF = 0x0a
export const CR = 0x0d
const SPACE = 0x20
const COLON = 0x3a

const isBlank = (code: number): boolean => code === SPACE || code === TAB
const framingName = /^(?:content-length|transfer-encoding)$/i

/**
 * Adds name and value of each line to the flat list; values are trimmed, bytes above ASCII are latin1. Returns why a line is
 * invalid; undefined: all are valid. text: the head as latin1, including the empty line. from: behind the first line.
 * takesBlanks: white space behind the value of a framing field, which is legal but which some parsers include, is no fault.
 */
export function readFields(
  text: string,
  from: number,
  fields: string[],
  takesBlanks: boolean,
): string | undefined {
  const end = text.length - 2
  let at = from
  while (at < end) {
    const nameAt = at
    while (((kinds[text.charCodeAt(at)] ?? 0) & TOKEN) !== 0) at++
    if (at === nameAt || text.charCodeAt(at) !== COLON) return 'a field name that is no token'
    const name = text.slice(nameAt, at)
    at++
    while (isBlank(text.charCodeAt(at))) at++
    const valueAt = at
    while (((kinds[text.charCodeAt(at)] ?? 0) & VALUE) !== 0) at++
    if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF)
      return 'a byte in a field value that may not be there'
    let valueEnd = at
    while (valueEnd > valueAt && isBlank(text.charCodeAt(valueEnd - 1))) valueEnd--
    if (valueEnd < at && !takesBlanks && framingName.test(name))
      return 'white space behind the value of a framing field'
    fields.push(name, text.slice(valueAt, valueEnd))
    at += 2
  }
  return at === end ? undefined : 'a head that does not end where it seems to'
}

/** Whether another message may follow on the connection (RFC 9112 9.3). connection: the Connection fields, joined. */
export function persists(connection: string | undefined, version: '1.0' | '1.1'): boolean {
  if (connection === undefined) return version === '1.1'
  if (/(?:^|,)[\t ]*close[\t ]*(?:$|,)/i.test(connection)) return false
  return version === '1.1' || /(?:^|,)[\t ]*keep-alive[\t ]*(?:$|,)/i.test(connection)
}
