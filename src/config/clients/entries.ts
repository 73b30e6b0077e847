/** Reads the clients of a file one by one: first as bytes, and parsed with the place of every value where bytes are not enough. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { readYaml, type Place, type Reading } from '../document.ts'
import type { Path } from '../problems.ts'
import { isGroup, isList, valueAt, type Tree } from '../tree.ts'
import { LONGEST_ENTRY_BYTES, readPieces } from './pieces.ts'
import { YamlCut } from './yaml-cut.ts'

/** A parsed client. */
export interface ExactEntry {
  readonly reading: Reading
  /** Path of the client in the reading. */
  readonly path: Path
  /** Line of the file at which the parsed text begins. */
  readonly line: number
  /** Line of the file at which the client begins. */
  readonly clientLine: number
  /** Number of clients before it in the file. */
  readonly index: number
}

/** A range of bytes; end is excluded. */
export interface Span {
  readonly start: number
  readonly end: number
}

export interface EntryReader {
  /** Takes the bytes of one client, which a line feed follows. Returns true if nothing else has to be done with it. */
  plain(bytes: Buffer, span: Span, line: number): boolean
  exact(entry: ExactEntry): void
  /** Reports a fault of the text as a whole. */
  fault(place: Place, message: string): void
  /** Drops the results from this file: all of its clients come again, read in another way. */
  restart(): void
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

const isBlank = (bytes: Buffer, start: number, end: number): boolean => {
  let at = start
  while (at < end && (bytes[at] === 0x20 || bytes[at] === 0x09 || bytes[at] === 0x0d)) at++
  return at === end
}

/** Extensions of client files. */
export const clientFileEndings = ['.jsonl', '.yaml', '.yml']

export const isJsonLines = (path: string): boolean => extname(path) === '.jsonl'

/** Returns the SHA-256 of the file in hex, and throws as readPieces does. */
export const readClients = (path: string, reader: EntryReader): string =>
  isJsonLines(path) ? readJsonLines(path, reader) : readYamlList(path, reader)

const readJsonLines = (path: string, reader: EntryReader): string => {
  let line = 0
  let index = 0
  const take = (bytes: Buffer, start: number, end: number): void => {
    line++
    if (isBlank(bytes, start, end)) return
    if (reader.plain(bytes, { start, end }, line)) {
      index++
      return
    }
    const text = decoded(bytes.subarray(start, end))
    if (text === undefined) reader.fault({ line, column: 1 }, notText)
    else reader.exact({ reading: readJson(text), path: [], line, clientLine: line, index: index++ })
  }
  return readPieces(path, (bytes, to, isEnd) => {
    let at = 0
    while (at < to) {
      const end = bytes.indexOf(0x0a, at)
      if (end === to && !isEnd) break
      take(bytes, at, end)
      at = end + 1
    }
    return Math.min(at, to)
  })
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

const notCut = Symbol('not a list that can be cut')

const readYamlList = (path: string, reader: EntryReader): string => {
  const cut = new YamlCut()
  let index = 0
  const take = (bytes: Buffer, start: number, end: number, line: number): void => {
    const isDone = reader.plain(bytes, { start, end }, line)
    const text = isDone ? '' : decoded(bytes.subarray(start, end))
    if (text === undefined) reader.fault({ line, column: 1 }, notText)
    else if (!isDone)
      reader.exact({ reading: readYaml(text, undefined), path: [0], line, clientLine: line, index })
    index++
  }
  try {
    return readPieces(path, (bytes, to, isEnd) => {
      const used = cut.take({ bytes, to, isEnd }, take)
      if (used === undefined) throw notCut
      return used
    })
  } catch (error) {
    if (error !== notCut) throw error
    reader.restart()
    return readWhole(path, reader)
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
    const at = [...path, index]
    const clientLine = locate({ path: at, at: 'value' }).line
    reader.exact({ reading: sound, path: at, line: 1, clientLine, index })
  }
}
