/** Reads clients one by one: the value alone where it is in plain form, and parsed with the place of every value. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { readYaml, type Reading } from '../document.ts'
import { notText } from '../files.ts'
import { ofWholeFile, type ConfigProblem, type Path, type Place } from '../problems.ts'
import { isGroup, isList, listAt, valueAt } from '../tree.ts'
import { cutFile, jsonLine, LONGEST_ENTRY_BYTES, YamlItems } from './cut-file.ts'
import { parsePlainItem, parsePlainLine } from './plain-clients.ts'

/** A client of a file, or of the configuration itself. */
export interface Entry {
  /** Line of the file at which the client begins; of one in the configuration itself, its index. */
  readonly line: number
  /** Number of clients before it in the file. */
  readonly index: number
  /** Parses the client; undefined: it is not in plain form. */
  readonly plain: () => unknown
  /** Parses the client with all its places; undefined: it is no text, which is reported. */
  readonly parse: () => Reading | undefined
}

/** entry: receives each client; fault: receives the faults of what is no client. Returns the SHA-256 of the file in hex, and throws as readPieces does. */
type ReadClients = (entry: TakeEntry, fault?: TakeFault) => string
type TakeEntry = (entry: Entry) => void
type TakeFault = (fault: ConfigProblem) => void

/** A file with clients, or the configuration itself. */
export interface ClientSource {
  /** Name of the file in messages; undefined: the configuration itself. */
  readonly name?: string | undefined
  /** Length of the text. */
  readonly bytes: number
  readonly read: ReadClients
}

/** The clients of a configuration, whose own faults are reported elsewhere. */
export const ownClients = (reading: Reading): ClientSource => ({
  bytes: JSON.stringify(listAt(reading.tree, 'clients')).length,
  read: (entry) => {
    for (const one of entriesAt(reading, ['clients'])) entry({ ...one, line: one.index })
    return ''
  },
})

const decoder = new TextDecoder('utf-8', { fatal: true })

const decoded = (bytes: Buffer): string | undefined => {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}

export const clientFileEndings = ['.jsonl', '.yaml', '.yml']

export const isJsonLines = (path: string): boolean => extname(path) === '.jsonl'

export const readClients =
  (path: string): ReadClients =>
  (entry, fault = () => undefined) => {
    const isJson = isJsonLines(path)
    if (!isJson && !isPlainList(path)) return readWhole(path, entry, fault)
    const items = new YamlItems()
    let index = 0
    const kindOf = isJson ? jsonLine : items.kindOf
    const parsePlain = isJson ? parsePlainLine : parsePlainItem
    return cutFile(path, kindOf, (bytes, line) => {
      // Only ASCII is plain, so the bytes need no decoding.
      const plain = () => parsePlain(bytes.toString('latin1'))
      const parse = (): Reading | undefined => {
        const text = decoded(bytes)
        if (text === undefined) {
          fault({ ...ofWholeFile(notText), line })
          return undefined
        }
        return isJson
          ? readingAt(readJson(text), [], line)
          : readingAt(readYaml(text, undefined), [0], line)
      }
      entry({ line, index: index++, plain, parse })
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
const readWhole = (path: string, entry: TakeEntry, fault: TakeFault): string => {
  const bytes = readFileSync(path)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const text = bytes.length > LONGEST_ENTRY_BYTES ? '' : decoded(bytes)
  if (bytes.length > LONGEST_ENTRY_BYTES)
    fault(ofWholeFile('is no list with "- " lines alone, and over 16MiB; write JSONL'))
  else if (text === undefined) fault(ofWholeFile(notText))
  else readTree(readYaml(text, undefined), entry, fault)
  return sha256
}

/** Reports all that a file has besides clients. */
const readTree = (reading: Reading, entry: TakeEntry, fault: TakeFault): void => {
  const { tree, faults, locate } = reading
  for (const each of faults) fault(each)
  if (tree === undefined || tree === '') return
  const path = isList(tree) ? [] : ['clients']
  const refuse = (at: Parameters<Reading['locate']>[0], message: string): void =>
    fault({ ...ofWholeFile(message), ...locate(at) })
  for (const key of isGroup(tree) ? Object.keys(tree) : [])
    if (key !== 'clients')
      refuse({ path: [key], at: 'key' }, 'is not a known key; the key here is clients')
  if (!isList(valueAt(tree, ...path)))
    refuse({ path, at: 'value' }, 'is not a list; write [A, B], or lines that start with "- "')
  for (const one of entriesAt(reading, path)) entry(one)
}

function* entriesAt(reading: Reading, list: Path): Generator<Entry> {
  const sound = { ...reading, faults: [] }
  for (const index of listAt(reading.tree, ...list).keys()) {
    const path = [...list, index]
    const { line } = reading.locate({ path, at: 'value' })
    const parse = () => readingAt(sound, path)
    yield { line, index, plain: () => undefined, parse }
  }
}
