/** A JSON value with the place of all its parts: each scalar the text as written, as in YAML. Repeated keys are told, which JSON.parse hides. */
import { maxDepth, tooDeep, writtenTwice, type Place, type Reading } from '../config/document.ts'
import type { Path, PathProblem } from '../config/problems.ts'
import { isReservedName, reservedNameFault } from '../config/scalars.ts'
import { emptyGroup, type Tree } from '../config/tree.ts'

/** Where a value begins; its parts by key or index. */
interface Spot {
  readonly offset: number
  readonly keyOffset: number
  readonly parts: ReadonlyMap<string | number, Spot>
}

class NotJson extends Error {
  readonly offset: number

  constructor(offset: number, message: string) {
    super(message)
    this.offset = offset
  }
}

const wordShape = /[^\s,:[\]{}"]+/y
const scalarShape = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/
const stringShape = /"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"/uy
const blanks = /[ \t\r\n]*/y

class JsonReader {
  readonly #text: string
  #at = 0
  readonly faults: (Place & { path: Path; message: string })[] = []

  constructor(text: string) {
    this.#text = text
  }

  whole(): { tree: Tree; spot: Spot } {
    const read = this.#value([], undefined)
    this.#skip(blanks)
    if (this.#at < this.#text.length)
      throw new NotJson(this.#at, 'goes on after the end of its value; write one object a line')
    return read
  }

  #value(path: Path, keyOffset: number | undefined): { tree: Tree; spot: Spot } {
    this.#skip(blanks)
    const offset = this.#at
    const spot = { offset, keyOffset: keyOffset ?? offset, parts: new Map<string | number, Spot>() }
    if (path.length > maxDepth) throw new NotJson(offset, tooDeep)
    const first = this.#text[offset]
    if (first === '{') return { tree: this.#group(path, spot.parts), spot }
    if (first === '[') return { tree: this.#list(path, spot.parts), spot }
    if (first === '"') return { tree: this.#string(), spot }
    const word = this.#skip(wordShape)
    if (!scalarShape.test(word))
      throw new NotJson(
        offset,
        word === ''
          ? 'has no value here; write a text in double quotes, a number, { } or [ ]'
          : 'is not JSON; put the text in double quotes',
      )
    return { tree: word, spot }
  }

  #list(path: Path, parts: Map<string | number, Spot>): Tree {
    const items: Tree[] = []
    this.#at++
    if (this.#takes(']')) return items
    do {
      const { tree, spot } = this.#value([...path, items.length], undefined)
      parts.set(items.length, spot)
      items.push(tree)
    } while (this.#takes(','))
    this.#needs(']')
    return items
  }

  #group(path: Path, parts: Map<string | number, Spot>): Tree {
    const group = emptyGroup()
    this.#at++
    if (this.#takes('}')) return group
    do {
      this.#skip(blanks)
      const offset = this.#at
      if (this.#text[offset] !== '"')
        throw new NotJson(offset, 'has no key here; write "KEY": VALUE, the key in double quotes')
      const key = this.#string()
      const keyPath = [...path, key]
      this.#needs(':')
      const { tree, spot } = this.#value(keyPath, offset)
      if (isReservedName(key)) this.#tell(offset, keyPath, reservedNameFault)
      else if (parts.has(key)) this.#tell(offset, keyPath, writtenTwice)
      else {
        group[key] = tree
        parts.set(key, spot)
      }
    } while (this.#takes(','))
    this.#needs('}')
    return group
  }

  #string(): string {
    const offset = this.#at
    const quoted = this.#skip(stringShape)
    if (quoted === '')
      throw new NotJson(offset, 'is not a JSON string; close its quotes and escape what needs it')
    return JSON.parse(quoted) as string
  }

  #tell(offset: number, path: Path, message: string): void {
    this.faults.push({ line: 1, column: offset + 1, path, message })
  }

  #skip(shape: RegExp): string {
    shape.lastIndex = this.#at
    const found = shape.exec(this.#text)?.[0] ?? ''
    this.#at += found.length
    return found
  }

  #takes(sign: string): boolean {
    this.#skip(blanks)
    if (this.#text[this.#at] !== sign) return false
    this.#at++
    return true
  }

  #needs(sign: string): void {
    if (!this.#takes(sign)) throw new NotJson(this.#at, `has no "${sign}" here; correct the JSON`)
  }
}

const placeOf = (root: Spot, { path, at }: Pick<PathProblem, 'path' | 'at'>): Place => {
  let spot = root
  let offset = root.offset
  for (const step of path) {
    const part = spot.parts.get(step)
    // What is missing is told at the group that lacks it.
    if (part === undefined) return { line: 1, column: spot.keyOffset + 1 }
    spot = part
    offset = at === 'key' ? part.keyOffset : part.offset
  }
  return { line: 1, column: offset + 1 }
}

/** text: one line. */
export const readJson = (text: string): Reading => {
  const reader = new JsonReader(text)
  const rest = { isHole: () => false, isForeign: () => false }
  try {
    const { tree, spot } = reader.whole()
    return { tree, faults: reader.faults, locate: (problem) => placeOf(spot, problem), ...rest }
  } catch (error) {
    if (!(error instanceof NotJson)) throw error
    const place = { line: 1, column: error.offset + 1 }
    const faults = [{ ...place, path: [], message: error.message }]
    return { tree: undefined, faults, locate: () => place, ...rest }
  }
}
