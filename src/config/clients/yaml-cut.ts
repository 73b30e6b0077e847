/**
 * Cuts a YAML list, bare or under `clients:`, at the dashes of its own indent: inside an item everything is indented deeper.
 * Gives up at a line of another kind; then the file has to be read as a whole.
 */

const [lineFeed, carriageReturn, blank, hash, dash] = [0x0a, 0x0d, 0x20, 0x23, 0x2d]

/** Bytes of a file up to `to`, where a line feed stands. */
interface Piece {
  readonly bytes: Buffer
  readonly to: number
  readonly isEnd: boolean
}

type TakeItem = (bytes: Buffer, start: number, end: number, line: number) => void

export class YamlCut {
  #line = 0
  /** Indent of the dashes; undefined: none has come. */
  #indent: number | undefined
  #hasHead = false
  /** Line of the dash of the incomplete item. */
  #itemLine: number | undefined

  /** Returns the end of the bytes used; undefined: they are no such list. Unused bytes come again at the start of the next piece. */
  take({ bytes, to, isEnd }: Piece, takeItem: TakeItem): number | undefined {
    let at = 0
    let itemAt = 0
    const from = this.#itemLine
    if (from !== undefined) {
      // The item comes again from its dash; its lines are counted again.
      this.#line = from
      at = bytes.indexOf(lineFeed) + 1
      if (at > to) return isEnd ? this.#end({ bytes, to, isEnd }, 0, takeItem) : 0
    }
    while (at < to) {
      const end = bytes.indexOf(lineFeed, at)
      if (end === to && !isEnd) break
      this.#line++
      const kind = this.#kindOf(bytes, at, end)
      if (kind === 'foreign') return undefined
      if (kind === 'dash') {
        if (this.#itemLine !== undefined) takeItem(bytes, itemAt, at, this.#itemLine)
        this.#itemLine = this.#line
        itemAt = at
      }
      at = end + 1
    }
    if (isEnd) return this.#end({ bytes, to, isEnd }, itemAt, takeItem)
    return this.#itemLine === undefined ? Math.min(at, to) : itemAt
  }

  /** A file without an item may still be an empty list in another notation. */
  #end({ bytes, to }: Piece, itemAt: number, takeItem: TakeItem): number | undefined {
    if (this.#itemLine === undefined) return undefined
    takeItem(bytes, itemAt, to, this.#itemLine)
    return to
  }

  #kindOf(bytes: Buffer, from: number, end: number): 'dash' | 'inside' | 'foreign' {
    let at = from
    while (bytes[at] === blank) at++
    const first = bytes[at]
    if (first === hash || isLineEnd(bytes, at, end)) return 'inside'
    const indent = at - from
    const isDash = first === dash && (bytes[at + 1] === blank || isLineEnd(bytes, at + 1, end))
    if (this.#indent === undefined) {
      if (isDash) {
        this.#indent = indent
        return 'dash'
      }
      const isHead = !this.#hasHead && /^clients: *(?:#.*)?$/.test(lineText(bytes, from, end))
      this.#hasHead = true
      return isHead ? 'inside' : 'foreign'
    }
    if (isDash && indent === this.#indent) return 'dash'
    return indent > this.#indent && first !== 0x09 ? 'inside' : 'foreign'
  }
}

const isLineEnd = (bytes: Buffer, at: number, end: number): boolean =>
  at >= end || (bytes[at] === carriageReturn && at + 1 === end)

const lineText = (bytes: Buffer, from: number, end: number): string =>
  bytes
    .toString('utf8', from, end)
    .replace(/\r$/, '')
    .replace(/^\uFEFF/, '')
