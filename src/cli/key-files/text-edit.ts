/** Changes lists and groups of a YAML or JSON text in place: every other byte is kept. */
import type { Pair, Span } from '../../config/document.ts'

export type Value = string | number | readonly Value[] | { readonly [key: string]: Value }

/** The style of groups in braces. */
interface Style {
  readonly isJson: boolean
  /** Blanks inside of braces. */
  readonly pad: string
  /** Blanks after a colon or a comma. */
  readonly gap: string
}

export const pairOf = (group: Span | undefined, key: string): Pair | undefined =>
  group?.pairs?.find((pair) => pair.key.text === key)

export class TextEdit {
  readonly #text: string
  /** The line break that the text uses. */
  readonly #lineBreak: string
  readonly #edits: { readonly start: number; readonly end: number; readonly text: string }[] = []

  constructor(text: string) {
    this.#text = text
    this.#lineBreak = /\r?\n/.exec(text)?.[0] ?? '\n'
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
  addUnder(group: Span, key: string, item: Value): void {
    const pair = pairOf(group, key)
    if (pair === undefined) return this.#addPair(group, key, [item])
    const { value } = pair
    const isOneLine = /^: +\[ *\]$/.test(this.#text.slice(pair.key.end, value.end))
    if (group.isFlow || !isOneLine) return this.addTo(value, item, group)
    this.#put(pair.key.end + 1, value.end, '')
    const indent = `${this.#indentOf(group)}  - `
    this.#insertLines(value.end, hung(indent, asLines(item)))
  }

  /** Adds to a list. beside: gives the style, if the list is empty. */
  addTo(list: Span, item: Value, beside = list): void {
    const last = list.items?.at(-1)
    const style = this.#styleOf(last ?? beside)
    const text = inBraces(item, style)
    if (last === undefined) return this.#put(list.start + 1, list.start + 1, text)
    if (!list.isFlow) {
      const lines = last.isFlow ? [text] : asLines(item)
      return this.#insertLines(last.end, hung(`${this.#indentOf(list)}- `, lines))
    }
    this.#put(last.end, last.end, `,${style.gap}${text}`)
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

  #addPair(group: Span, key: string, value: Value): void {
    const style = this.#styleOf(group)
    const end = group.pairs?.at(-1)?.value.end ?? group.end
    if (group.isFlow)
      return this.#put(end, end, `,${style.gap}${pairsInBraces({ [key]: value }, style)}`)
    const indent = this.#indentOf(group)
    this.#insertLines(
      end,
      asLines({ [key]: value }).map((line) => indent + line),
    )
  }

  #put(start: number, end: number, text: string): void {
    this.#edits.push({ start, end, text })
  }

  #insertLines(after: number, lines: readonly string[]): void {
    const at = this.#lineEnd(after)
    this.#put(at, at, lines.map((line) => this.#lineBreak + line).join(''))
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

  #styleOf(sample: Span): Style {
    const first = sample.pairs?.[0]?.key
    const isJson = first !== undefined && this.#text[first.start] === '"'
    return {
      isJson,
      pad: sample.isFlow && this.#text[sample.start + 1] !== ' ' ? '' : ' ',
      gap: isJson && this.#text[first.end + 1] !== ' ' ? '' : ' ',
    }
  }
}

function inBraces(value: Value, style: Style): string {
  const { isJson, pad, gap } = style
  if (typeof value === 'number') return String(value)
  if (typeof value === 'string') return quoted(value, isJson)
  if (isList(value)) return `[${value.map((item) => inBraces(item, style)).join(`,${gap}`)}]`
  return `{${pad}${pairsInBraces(value, style)}${pad}}`
}

const pairsInBraces = (group: { readonly [key: string]: Value }, style: Style): string =>
  Object.entries(group)
    .map(([key, value]) => `${quoted(key, style.isJson)}:${style.gap}${inBraces(value, style)}`)
    .join(`,${style.gap}`)

/** A colon at the end of a plain value would make it a key of YAML. */
const quoted = (text: string, isJson: boolean): string =>
  isJson ? JSON.stringify(text) : text.endsWith(':') ? `'${text}'` : text

const isList = (value: Value): value is readonly Value[] => Array.isArray(value)

/** Writes YAML lines, with an item of a list or a key on each. */
export function asLines(value: Value): string[] {
  if (typeof value !== 'object') return [inBraces(value, blockStyle)]
  if (isList(value)) return value.flatMap((item) => hung('- ', asLines(item)))
  return Object.entries(value).flatMap(([key, inner]) =>
    isList(inner)
      ? [`${key}:`, ...asLines(inner).map((line) => `  ${line}`)]
      : [`${key}: ${inBraces(inner, blockStyle)}`],
  )
}

const blockStyle: Style = { isJson: false, pad: ' ', gap: ' ' }

/** Puts the first line after the text, and the others below it. */
const hung = (before: string, lines: readonly string[]): string[] =>
  lines.map((line, at) => (at === 0 ? before : ' '.repeat(before.length)) + line)
