/** The file itself: read, taken apart as YAML with positions, environment put in, then parsed. The only file that knows YAML. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { LineCounter, isAlias, isMap, isScalar, isSeq, parseDocument, visit } from 'yaml'
import type { Document, Pair } from 'yaml'
import type { Config } from './config.ts'
import { substitute } from './environment.ts'
import type { Environment } from './environment.ts'
import { resolveFiles, unreadable, unreadableFiles } from './files.ts'
import { parseConfig } from './parse.ts'
import { ConfigError, formatPath, formatProblem, inOrder, showValue } from './problems.ts'
import type { ConfigProblem, Path, PathProblem } from './problems.ts'
import { isReservedName, reservedNameFault } from './scalars.ts'
import { emptyGroup, isGroup, textAt } from './tree.ts'
import type { Group, Tree } from './tree.ts'
import { warningsOf } from './warnings.ts'
import { tagFault, tellYamlFaults } from './yaml-faults.ts'

/** Deeper than any key of the schema; it keeps a hostile file from exhausting the stack. */
const maxDepth = 32

interface Walk {
  readonly env: Environment
  readonly report: (offset: number, path: Path, message: string) => void
  /** Paths whose value could not be read: what the schema would say of them is beside the point. */
  readonly holes: Set<string>
  /** Paths whose value comes from the environment: it may be a secret. */
  readonly foreign: Set<string>
}

const offsetOf = (node: unknown, fallback: number): number =>
  (node as { readonly range?: readonly number[] | null } | null)?.range?.[0] ?? fallback

/** The failsafe schema leaves every scalar as the text it was written with. */
const scalarText = (node: unknown): string =>
  isScalar(node) && typeof node.value === 'string' ? node.value : ''

const isTagged = (node: unknown): boolean =>
  (node as { readonly tag?: string } | null)?.tag !== undefined

const keyText = ({ key }: Pair): string => scalarText(key)

const toTree = (walk: Walk, node: unknown, { path, from }: { path: Path; from: number }): Tree => {
  const offset = offsetOf(node, from)
  const refuse = (message: string): Tree => {
    walk.report(offset, path, message)
    walk.holes.add(JSON.stringify(path))
    return ''
  }
  if (isAlias(node)) return refuse('is an alias; write the value out')
  if (isTagged(node)) return refuse(tagFault)
  if (path.length > maxDepth) return refuse('is nested too deeply; no key lies this deep')
  if (isSeq(node)) {
    return node.items.map((item, index) =>
      toTree(walk, item, { path: [...path, index], from: offset }),
    )
  }
  if (!isMap(node)) {
    const written = scalarText(node)
    const { text, faults } = substitute(written, walk.env)
    for (const fault of faults) refuse(fault)
    if (text !== written) walk.foreign.add(JSON.stringify(path))
    return text
  }
  const group = emptyGroup()
  for (const pair of node.items) {
    const key = keyText(pair)
    const keyPath = [...path, key]
    const keyOffset = offsetOf(pair.key, offset)
    if (isReservedName(key)) walk.report(keyOffset, keyPath, reservedNameFault)
    else if (isTagged(pair.key)) walk.report(keyOffset, keyPath, tagFault)
    else if (Object.hasOwn(group, key)) {
      walk.report(keyOffset, keyPath, 'is written twice; keep one')
    } else group[key] = toTree(walk, pair.value, { path: keyPath, from: keyOffset })
  }
  return group
}

/** Where a problem shows: at its key or value, or at the nearest parent that is in the file. */
const locate = (document: Document, { path, at }: PathProblem): number => {
  let node: unknown = document.contents
  let offset = offsetOf(node, 0)
  let keyOffset = 0
  for (const step of path) {
    if (isMap(node)) {
      const pair = node.items.find((candidate) => keyText(candidate) === step)
      if (pair === undefined) return keyOffset
      keyOffset = offsetOf(pair.key, offset)
      node = pair.value
    } else if (isSeq(node) && typeof step === 'number' && step in node.items) {
      node = node.items[step]
      keyOffset = offsetOf(node, offset)
    } else return keyOffset
    offset = offsetOf(node, keyOffset)
  }
  return at === 'key' ? keyOffset : offset
}

const startsWithHole = (holes: ReadonlySet<string>, path: Path): boolean =>
  path.some((_, index) => holes.has(JSON.stringify(path.slice(0, index + 1))))

interface Source {
  /** Name of the file, for messages. */
  readonly file: string
  readonly env: Environment
  /** Default: now. */
  readonly nowMs?: number
  /** Tells of files that the tree names. Default: none is looked at. */
  readonly checkFiles?: (tree: Group) => readonly PathProblem[]
}

/** Start and end of each value in quotes. */
const quotedIn = (document: Document.Parsed): (readonly [number, number])[] => {
  const found: (readonly [number, number])[] = []
  visit(document, {
    Scalar: (_, { type, range }) => {
      if (type?.startsWith('QUOTE') && range) found.push([range[0], range[1]])
    },
  })
  return found
}

/** YAML 1.2 with every scalar as text; undefined when nesting exhausts the parser's stack. */
const readDocument = (text: string, lineCounter: LineCounter) => {
  try {
    return parseDocument(text, {
      lineCounter,
      prettyErrors: false,
      schema: 'failsafe',
      strict: true,
      stringKeys: true,
      // The walk reports repeated keys itself, with their path.
      uniqueKeys: false,
      merge: false,
      resolveKnownTags: false,
      version: '1.2',
    })
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** What is wrong with one file, with its place in there. */
class Complaints {
  readonly problems: ConfigProblem[] = []
  readonly lineCounter = new LineCounter()

  at(offset: number, path: Path, message: string): ConfigProblem {
    const { line, col } = this.lineCounter.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1), path: formatPath(path), message }
  }

  readonly report = (offset: number, path: Path, message: string): void => {
    this.problems.push(this.at(offset, path, message))
  }
}

/** The document without any fault of YAML itself. */
const readYaml = (text: string, file: string, complaints: Complaints): Document.Parsed => {
  const document = readDocument(text, complaints.lineCounter)
  if (document === undefined)
    complaints.report(0, [], 'is nested too deeply; no key lies that deep')
  // The walk reports tags itself, with their path.
  const faults = [...(document?.errors ?? []), ...(document?.warnings ?? [])].filter(
    ({ message }) => !message.startsWith('Unresolved tag'),
  )
  if (document !== undefined && faults.length > 0)
    for (const { offset, message } of tellYamlFaults(text, faults, quotedIn(document)))
      complaints.report(offset, [], message)
  if (document === undefined || complaints.problems.length > 0)
    throw new ConfigError(file, complaints.problems)
  return document
}

/** Parses the text of a file. Throws ConfigError with every problem. */
export const parseConfigText = (text: string, source: Source): Config => {
  const { file, env, nowMs = Date.now(), checkFiles = () => [] } = source
  const complaints = new Complaints()
  const { problems, report } = complaints
  const document = readYaml(text, file, complaints)
  const [holes, foreign] = [new Set<string>(), new Set<string>()]
  const walk = { env, report, holes, foreign }
  const tree = toTree(walk, document.contents, { path: [], from: 0 })
  if (!isGroup(tree)) {
    const empty = tree === '' && problems.length === 0
    if (empty) report(0, [], 'is empty; write at least one key, such as clients:')
    else if (tree !== '') report(0, [], 'is not a group of keys; write KEY: VALUE lines')
    throw new ConfigError(file, problems)
  }
  resolveFiles(tree, dirname(file))
  const revision = createHash('sha256').update(text).digest('hex').slice(0, 12)
  const parsed = parseConfig(tree, revision)
  const place = (problem: PathProblem): ConfigProblem => {
    const { path } = problem
    const isForeign = foreign.has(JSON.stringify(path))
    const value = isForeign ? undefined : textAt(parsed.complete, ...path)
    return complaints.at(locate(document, problem), path, showValue(problem, value).message)
  }
  const found = [...parsed.problems, ...checkFiles(tree)]
  problems.push(...found.filter(({ path }) => !startsWithHole(holes, path)).map(place))
  if (problems.length > 0 || parsed.config === undefined) throw new ConfigError(file, problems)
  const warnings = inOrder(warningsOf(parsed.config, nowMs).map(place)).map((warning) =>
    formatProblem(file, { ...warning, message: `warning: ${warning.message}` }),
  )
  return { ...parsed.config, warnings }
}

const readText = (file: string): string => {
  const refuse = (message: string): ConfigError =>
    new ConfigError(file, [{ line: 1, column: 1, path: formatPath([]), message }])
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (error) {
    throw refuse(unreadable(error))
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw refuse('is not UTF-8 text; save it in that encoding')
  }
}

/** Reads and parses a file. Throws ConfigError with every problem: an unreadable file, or one that it names, among them. */
export const loadConfig = (file: string, env: Environment): Config =>
  parseConfigText(readText(file), { file, env, checkFiles: unreadableFiles })
