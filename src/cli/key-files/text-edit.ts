/** Changes lists and groups of a YAML or JSON text in place: every other byte is kept. */
import { isCollection, isMap, isPair, isScalar, yamlLines } from '../../config/document.ts'
import type { Node, Pair } from '../../config/document.ts'

export const pairOf = (group: unknown, key: string) =>
  isMap<Node, Node>(group)
    ? group.items.find((pair) => isScalar(pair.key) && pair.key.value === key)
    : undefined

/** Items of a list, pairs of a group. */
export const itemsOf = (node: unknown): readonly unknown[] => (isCollection(node) ? node.items : [])

const startOf = (node: unknown): number => (node as Node).range?.[0] ?? 0

const isFlow = (node: unknown): boolean => isCollection(node) && node.flow === true

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
  addUnder(group: Node, key: string, item: object): void {
    const pair = pairOf(group, key)
    if (!pair?.value) return this.#addPair(group, key, [item])
    const [keyEnd, end] = [this.#endOf(pair.key), this.#endOf(pair.value)]
    const isOneLine = /^: +\[ *\]$/.test(this.#text.slice(keyEnd, end))
    if (isFlow(group) || !isOneLine) return this.addTo(pair.value, item)
    this.#put(keyEnd + 1, end, '')
    this.#insertLines(end, `${this.#indentOf(group)}  `, yamlLines([item]))
  }

  addTo(list: Node, item: object): void {
    const last = itemsOf(list).at(-1)
    if (last === undefined)
      return this.#put(startOf(list) + 1, startOf(list) + 1, this.#inBraces(item))
    if (isFlow(list)) return this.#append(this.#endOf(last), this.#inBraces(item))
    const lines = isFlow(last) ? [`- ${this.#inBraces(item)}`] : yamlLines([item])
    this.#insertLines(this.#endOf(last), this.#indentOf(list), lines)
  }

  /** Takes an item out of the list of the group, with the comments on its own lines. */
  removeFrom({ key, value: list }: Pair<Node, Node>, index: number): void {
    const items = itemsOf(list)
    const [before, item, after] = [items[index - 1], items[index], items[index + 1]]
    const [start, end, keyEnd] = [startOf(item), this.#endOf(item), this.#endOf(key)]
    if (!isFlow(list)) {
      const dash = this.#text.lastIndexOf(`\n${this.#indentOf(list)}-`, start)
      this.#put(this.#lineEnd(this.#lineStart(dash)), this.#lineEnd(end), '')
      if (items.length === 1) this.#put(keyEnd + 1, keyEnd + 1, ' []')
      return
    }
    const comma = /^\s*,/.exec(this.#text.slice(end))?.[0].length ?? 0
    const from = before ? this.#endOf(before) : start
    const to = before ? end : after ? startOf(after) : end + comma
    if (!this.#text.slice(from, before ? start : to).includes('#')) return this.#put(from, to, '')
    // Comments on its neighbour stay.
    const at = this.#text.indexOf(',', before ? from : end)
    this.#put(at, at + 1, '')
    this.#put(start, end, '')
  }

  /** Sets a single value of the group. */
  set(group: Node, key: string, value: string): void {
    const old = pairOf(group, key)?.value
    if (!old) return this.#addPair(group, key, value)
    const quote = /^["']/.exec(this.#text.slice(startOf(old)))?.[0] ?? ''
    this.#put(startOf(old), this.#endOf(old), quote + value + quote)
  }

  #addPair(group: Node, key: string, value: unknown): void {
    const end = this.#endOf(itemsOf(group).at(-1) ?? group)
    const pair = { [key]: value }
    if (isFlow(group)) this.#append(end, this.#inBraces(pair).slice(1, -1).trim())
    else this.#insertLines(end, this.#indentOf(group), yamlLines(pair))
  }

  #inBraces(value: object): string {
    return this.#isJson ? JSON.stringify(value) : yamlLines(value, 'flow').join('')
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
  #indentOf(node: unknown): string {
    return ' '.repeat(startOf(node) - this.#lineStart(startOf(node)))
  }

  /** Returns the offset behind the last character of an item or a pair; the library ends a block only after the comments and blanks behind it. */
  #endOf(part: unknown): number {
    if (isPair(part)) return this.#endOf(part.value ?? part.key)
    const last = isFlow(part) ? undefined : itemsOf(part).at(-1)
    if (last !== undefined) return this.#endOf(last)
    const [start = 0, end] = (part as Node).range ?? []
    return start + this.#text.slice(start, end).trimEnd().length
  }
}
