/** The syntax that requests and answers have in common, read strictly (RFC 9110 5.6, RFC 9112 5 and 7.1). */

export const tchar = "[!#$%&'*+.^_`|~0-9A-Za-z-]"
const fieldLine = new RegExp(
  `^(${tchar}+):[ \\t]*((?:[\\x21-\\x7e\\x80-\\xff](?:[\\t\\x20-\\x7e\\x80-\\xff]*[\\x21-\\x7e\\x80-\\xff])?)?)[ \\t]*$`,
)
const quoted = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"'
const sizeLine = new RegExp(`^([0-9a-fA-F]{1,8})(?:;${tchar}+(?:=(?:${tchar}+|${quoted}))?)*$`)
/** What recipients may take or refuse: white space around extensions (RFC 9112 7.1.1), sizes with many zeros. */
const doubtfulSizeLine = /^([0-9a-fA-F]+)[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/
/** Extensions have a limit of their own. */
const LONG_SIZE_LINE = 1_000

/** undefined: the line is no field. */
export function fieldOf(line: string): { name: string; value: string } | undefined {
  const field = fieldLine.exec(line)
  return field ? { name: field[1] ?? '', value: field[2] ?? '' } : undefined
}

export interface Chunked {
  readonly content: string
  /** Just behind the body; undefined: it is not whole. */
  readonly end: number | undefined
  /** More bytes could make it whole. */
  readonly isUnfinished: boolean
  /** Recipients may take or refuse it, as far as it was read. */
  readonly isDoubtful: boolean
}

/** text: from the beginning of the body. */
export function readChunked(text: string): Chunked {
  let content = ''
  let isDoubtful = false
  let at = 0
  const broken = (isUnfinished: boolean): Chunked => ({
    content,
    end: undefined,
    isUnfinished,
    isDoubtful,
  })
  const takeLine = (): string | undefined => {
    const end = text.indexOf('\r\n', at)
    if (end === -1) return undefined
    const line = text.slice(at, end)
    at = end + 2
    return line
  }
  for (;;) {
    const line = takeLine()
    if (line === undefined) return broken(true)
    const strict = sizeLine.exec(line)
    const size = strict ?? doubtfulSizeLine.exec(line)
    if (!size) return broken(false)
    isDoubtful ||= !strict || line.length > LONG_SIZE_LINE
    const bytes = Number.parseInt(size[1] ?? '', 16)
    if (bytes === 0) break
    content += text.slice(at, at + bytes)
    at += bytes
    if (text.length < at + 2) return broken(text.startsWith('\r', at) || at >= text.length)
    if (!text.startsWith('\r\n', at)) return broken(false)
    at += 2
  }
  for (;;) {
    const line = takeLine()
    if (line === undefined) return broken(true)
    if (line === '') return { content, end: at, isUnfinished: false, isDoubtful }
    if (fieldOf(line) === undefined) return broken(false)
    // RFC 9110 6.5.1 forbids some trailers; they are dropped or refused.
    isDoubtful = true
  }
}
