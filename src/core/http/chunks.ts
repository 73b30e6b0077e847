/** Parses the lines of a chunked body (RFC 9112 section 7.1). */

/** Longest size line of a chunk, extensions and line end included. */
export const maxChunkLineBytes = 1_024

const tchar = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]"
const quoted = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"'
const extensions = `(?:;${tchar}+(?:=(?:${tchar}+|${quoted}))?)*`
const sizeLine = new RegExp(`^([0-9A-Fa-f]{1,12})${extensions}\\r\\n$`)

/** Returns the chunk's size in bytes; undefined: the line is invalid. line: latin1, with its line end. */
export function chunkSize(line: string): number | undefined {
  const digits = sizeLine.exec(line)?.[1]
  return digits === undefined ? undefined : Number.parseInt(digits, 16)
}

const fieldLine = new RegExp(`^${tchar}+:[\\t\\x20-\\x7e\\x80-\\xff]*$`)

/** Framing fields must not stand in a trailer section (RFC 9110 section 6.5.1). */
const framingField = /^(?:content-length|transfer-encoding):/i

/** Checks a line of a trailer section. line: latin1, without its line end. */
export function isTrailer(line: string): boolean {
  return fieldLine.test(line) && !framingField.test(line)
}
