/** Reads the clients of a file one by one: as bytes, which the caller may understand by itself, and parsed with the place of every value where it does not. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { readYaml, type Place, type Reading } from '../document.ts'
import type { Path } from '../problems.ts'
import { isGroup, isList, valueAt, type Tree } from '../tree.ts'
import { cutFile, jsonLine, LONGEST_ENTRY_BYTES, YamlItems, type Span } from './cut-file.ts'

/** A client of a file. */
export interface Entry {
  /** undefined: the file was parsed as a whole. */
  readonly span: Span | undefined
  /** Line of the file at which the client begins. */
  readonly line: number
  /** Number of clients before it in the file. */
  readonly index: number
  /** Parses the client; undefined: it is no text, which is reported. */
  readonly parse: () => Reading | undefined
}

export interface EntryReader {
  entry(entry: Entry): void
  /** Reports a fault of the text as a whole. */
  fault(place: Place, message: string): void
}

const decoder = new TextDecoder('utf-8', { fatal: true })
const notText = 'is not UTF-8 text; save it in that encoding'

const decoded = (bytes: Buffer): string | undefined => {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}

/** Extensions of client files. */
export const clientFileEndings = ['.jsonl', '.yaml', '.yml']

export const isJsonLines = (path: string): boolean => extname(path) === '.jsonl'

/** Returns the SHA-256 of the file in hex, and throws as readPieces does. */
export const readClients = (path: string, reader: EntryReader): string => {
  const isJson = isJsonLines(path)
  if (!isJson && !isPlainList(path)) return readWhole(path, reader)
  const items = new YamlItems()
  let index = 0
  const kindOf = isJson ? jsonLine : items.kindOf
  return cutFile(path, kindOf, (span, line) => {
    const parse = (): Reading | undefined => {
      const text = decoded(span.bytes.subarray(span.start, span.end))
      if (text === undefined) {
        reader.fault({ line, column: 1 }, notText)
        return undefined
      }
      return isJson
        ? readingAt(readJson(text), [], line)
        : readingAt(readYaml(text, undefined), [0], line)
    }
    reader.entry({ span, line, index: index++, parse })
  })
}

/** Whether a YAML file has one item after the other, each on lines of its own. */
const isPlainList = (path: string): boolean => {
  const items = new YamlItems()
  let count = 0
  cutFile(path, items.kindOf, () => count++)
  return count > 0 && !items.isForeign
}

/** The part of a reading at the path, as a reading of its own: paths begin there. line: the line of the file at which the text begins. */
export const readingAt = (reading: Reading, path: Path, line = 1): Reading => {
  const { tree, faults, locate, isHole, isForeign } = reading
  const inFile = <Placed extends Place>(place: Placed) => ({
    ...place,
    line: place.line + line - 1,
  })
  return {
    tree: tree === undefined ? undefined : (valueAt(tree, ...path) ?? ''),
    faults: faults.map((fault) => inFile({ ...fault, path: fault.path.slice(path.length) })),
    locate: (problem) => inFile(locate({ ...problem, path: [...path, ...problem.path] })),
    isHole: (inner) => isHole([...path, ...inner]),
    isForeign: (inner) => isForeign([...path, ...inner]),
  }
}

/** Reads a line of JSONL with the place of all its parts. JSON is YAML, so it is read as YAML, which keeps numbers as written and reports repeated keys. */
export const readJson = (written: string): Reading => {
  // YAML would take the carriage return of a Windows line end for a line of its own.
  const text = written.replace(/\r$/, '')
  const reading = readYaml(text, undefined)
  try {
    JSON.parse(text)
    return reading
  } catch (error) {
    // Some messages have a position behind "at", others have none.
    const [, position] = / at position (\d+)/.exec((error as Error).message) ?? []
    const column = position === undefined ? (reading.faults[0]?.column ?? 1) : Number(position) + 1
    const message = 'is not JSON; write one object, its keys and texts in double quotes'
    return { ...reading, tree: undefined, faults: [{ line: 1, column, path: [], message }] }
  }
}

/** Reads a YAML file that is no plain list of lines: in brackets, with tabs, or with more than clients in it. */
const readWhole = (path: string, reader: EntryReader): string => {
  const bytes = readFileSync(path)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const start = { line: 1, column: 1 }
  const text = bytes.length > LONGEST_ENTRY_BYTES ? '' : decoded(bytes)
  if (bytes.length > LONGEST_ENTRY_BYTES)
    reader.fault(start, 'is no list with "- " lines alone, and over 16MiB; write JSONL')
  else if (text === undefined) reader.fault(start, notText)
  else readTree(readYaml(text, undefined), reader)
  return sha256
}

const readTree = (reading: Reading, reader: EntryReader): void => {
  const { tree, faults, locate } = reading
  for (const { line, column, message } of faults) reader.fault({ line, column }, message)
  if (tree === undefined || tree === '') return
  const path = isList(tree) ? [] : ['clients']
  const list: Tree | undefined = valueAt(tree, ...path)
  for (const key of isGroup(tree) ? Object.keys(tree) : [])
    if (key !== 'clients')
      reader.fault(
        locate({ path: [key], at: 'key' }),
        'is not a known key; the key here is clients',
      )
  if (!isList(list))
    return reader.fault(
      locate({ path, at: 'value' }),
      'is not a list; write [A, B], or lines that start with "- "',
    )
  const sound = { ...reading, faults: [] }
  for (const index of list.keys()) {
    const one = readingAt(sound, [...path, index])
    const { line } = locate({ path: [...path, index], at: 'value' })
    reader.entry({ span: undefined, line, index, parse: () => one })
  }
}
