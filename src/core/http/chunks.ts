/** The lines of a chunked body (RFC 9112 section 7.1). */

/** Of a chunk's size line, extensions and line end included. */
export const maxChunkLineBytes = 1_024

const tchar = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]"
const quoted = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"'
const extensions = `(?:;${tchar}+(?:=(?:${tchar}+|${quoted}))?)*`
const sizeLine = new RegExp(`^([0-9A-Fa-f]{1,12})${extensions}\\r\\n$`)

/** line: with its line end, as latin1. Answers the chunk's size in bytes; undefined when the line says none. */
export function chunkSize(line: string): number | undefined {
  const digits = sizeLine.exec(line)?.[1]
  return digits === undefined ? undefined : Number.parseInt(digits, 16)
}

const trailerSection = new RegExp(`^(?:${tchar}+:[\\t\\x20-\\x7e\\x80-\\xff]*\\r\\n)*\\r\\n$`)

/** RFC 9110 section 6.5.1: what frames a message cannot stand behind it. */
const framingField = /^(?:content-length|transfer-encoding):/im

/** text: up to and with the empty line, as latin1. */
export function isTrailerSection(text: string): boolean {
  return trailerSection.test(text) && !framingField.test(text)
}
