/** Changes lists and groups of a YAML or JSON text in place: every other byte is kept. */
import { yamlLines, type Pair, type Span } from '../../config/document.ts'

export const pairOf = (group: Span | undefined, key: string): Pair | undefined =>
  group?.pairs?.find((pair) => pair.key.text === key)

export class TextEdit {
  readonly #text: string
  /** The line break that the text uses. */
  readonly #lineBreak: string
  /** JSON is written into JSON, though all of it is YAML. */
  readonly #isJson: boolean
  readonly #edits: { readonly start: number; readonly end: number; readonly text: string }[] = []

  constructor(text: string) {
    this.#text = text
    this.#lineBreak = /\r?\n/.exec(text)?.[0] ?? '\n'
    this.#isJson = /^\s*[[{][\s[{]*"/.test(text)
  }

  get result(): string {
    const edits = this.#edits.toSorted((a, b) => a.start - b.start || a.end - b.end)
    let done = 0
    let result = ''
    for (const { start, end, text } of edits) {
      result += this.#text.slice(done, start) + text
      done = end
    }
    return result + this.#text.slice(done)
  }

  /** Adds to the list of the group, which may be empty or missing. */
  addUnder(group: Span, key: string, item: object): void {
    const pair = pairOf(group, key)
    if (pair === undefined) return this.#addPair(group, key, [item])
    const { value } = pair
    const isOneLine = /^: +\[ *\]$/.test(this.#text.slice(pair.key.end, value.end))
    if (group.isFlow || !isOneLine) return this.addTo(value, item)
    this.#put(pair.key.end + 1, value.end, '')
    this.#insertLines(value.end, `${this.#indentOf(group)}  `, yamlLines([item]))
  }

  addTo(list: Span, item: object): void {
    const last = list.items?.at(-1)
    if (last === undefined) this.#put(list.start + 1, list.start + 1, this.#inBraces(item))
    else if (list.isFlow) this.#append(last.end, this.#inBraces(item))
    else {
      const lines = last.isFlow ? [`- ${this.#inBraces(item)}`] : yamlLines([item])
      this.#insertLines(last.end, this.#indentOf(list), lines)
    }
  }

  /** Takes an item out of the list of the group, with the comments on its own lines. */
  removeFrom({ key, value: list }: Pair, index: number): void {
    const items = list.items ?? []
    const [before, item, after] = [items[index - 1], items[index], items[index + 1]]
    if (item === undefined) throw new RangeError('the list has no such item')
    if (!list.isFlow) {
      const dash = this.#text.lastIndexOf(`\n${this.#indentOf(list)}-`, item.start)
      this.#put(this.#lineEnd(this.#lineStart(dash)), this.#lineEnd(item.end), '')
      if (items.length === 1) this.#put(key.end + 1, key.end + 1, ' []')
      return
    }
    const comma = /^\s*,/.exec(this.#text.slice(item.end))?.[0].length ?? 0
    const from = before?.end ?? item.start
    const to = before ? item.end : (after?.start ?? item.end + comma)
    if (!this.#text.slice(from, before ? item.start : to).includes('#'))
      return this.#put(from, to, '')
    // Comments on its neighbour stay.
    const at = this.#text.indexOf(',', before?.end ?? item.end)
    this.#put(at, at + 1, '')
    this.#put(item.start, item.end, '')
  }

  /** Sets a single value of the group. */
  set(group: Span, key: string, value: string): void {
    const old = pairOf(group, key)?.value
    if (old === undefined) return this.#addPair(group, key, value)
    const quote = /^["']/.exec(this.#text.slice(old.start, old.end))?.[0] ?? ''
    this.#put(old.start, old.end, quote + value + quote)
  }

  #addPair(group: Span, key: string, value: unknown): void {
    const end = group.pairs?.at(-1)?.value.end ?? group.end
    if (group.isFlow)
      this.#append(
        end,
        this.#inBraces({ [key]: value })
          .slice(1, -1)
          .trim(),
      )
    else this.#insertLines(end, this.#indentOf(group), yamlLines({ [key]: value }))
  }

  #inBraces(value: object): string {
    return this.#isJson ? JSON.stringify(value) : yamlLines(value, true).join('')
  }

  /** Adds to a list or a group in brackets or braces. */
  #append(end: number, text: string): void {
    this.#put(end, end, (this.#isJson ? ',' : ', ') + text)
  }

  #put(start: number, end: number, text: string): void {
    this.#edits.push({ start, end, text })
  }

  #insertLines(after: number, indent: string, lines: readonly string[]): void {
    const at = this.#lineEnd(after)
    this.#put(at, at, lines.map((line) => this.#lineBreak + indent + line).join(''))
  }

  #lineStart(at: number): number {
    return at === 0 ? 0 : this.#text.lastIndexOf('\n', at - 1) + 1
  }

  #lineEnd(from: number): number {
    const at = this.#text.indexOf('\n', from)
    const end = at === -1 ? this.#text.length : at
    return end > from && this.#text[end - 1] === '\r' ? end - 1 : end
  }

  /** The indent of its lines; a dash before the first counts as a blank. */
  #indentOf({ start }: Span): string {
    return ' '.repeat(start - this.#lineStart(start))
  }
}
