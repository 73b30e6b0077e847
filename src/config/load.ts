/** The file itself: read, taken apart as YAML with positions, environment put in, then parsed. The only file that knows YAML. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { LineCounter, isAlias, isMap, isScalar, isSeq, parseDocument } from 'yaml'
import type { Document, Pair } from 'yaml'
import type { Config } from './config.ts'
import { substitute } from './environment.ts'
import type { Environment } from './environment.ts'
import { parseConfig } from './parse.ts'
import { ConfigError, formatPath } from './problems.ts'
import type { ConfigProblem, Path, PathProblem } from './problems.ts'
import { isReservedName, reservedNameFault } from './scalars.ts'
import { emptyGroup, isGroup } from './tree.ts'
import type { Tree } from './tree.ts'

/** Deeper than any key of the schema; it keeps a hostile file from exhausting the stack. */
const maxDepth = 32

interface Walk {
  readonly env: Environment
  readonly report: (offset: number, path: Path, message: string) => void
  /** Paths whose value could not be read: what the schema would say of them is beside the point. */
  readonly holes: Set<string>
}

const offsetOf = (node: unknown, fallback: number): number =>
  (node as { readonly range?: readonly number[] | null } | null)?.range?.[0] ?? fallback

/** The failsafe schema leaves every scalar as the text it was written with. */
const scalarText = (node: unknown): string =>
  isScalar(node) && typeof node.value === 'string' ? node.value : ''

const isTagged = (node: unknown): boolean =>
  (node as { readonly tag?: string } | null)?.tag !== undefined

const tagFault = 'has a tag; remove it, each key knows its type'

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
    const { text, faults } = substitute(scalarText(node), walk.env)
    for (const fault of faults) refuse(fault)
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

/** Where the parser's message could quote the file, which may hold a secret there, another text stands in. */
const syntaxFaults: ReadonlyMap<string, string> = new Map([
  ['MULTIPLE_DOCS', 'has a second document here; keep one document in the file'],
  ['TAG_RESOLVE_FAILED', tagFault],
  ['BAD_DIRECTIVE', 'has a directive here; remove the line that starts with "%"'],
  ['BAD_DQ_ESCAPE', 'has an unknown escape in double quotes; write \\\\ for a plain \\'],
])

const syntaxFault = (code: string, message: string): string => {
  const reason = message.replace(/(?<=\w): .*$/s, '')
  return syntaxFaults.get(code) ?? `is not YAML (${reason}); correct the text here`
}

interface Source {
  /** Name of the file, for messages. */
  readonly file: string
  readonly env: Environment
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

/** Parses the text of a file. Throws ConfigError with every problem; reads nothing but its arguments. */
export const parseConfigText = (text: string, { file, env }: Source): Config => {
  const problems: ConfigProblem[] = []
  const lineCounter = new LineCounter()
  const report = (offset: number, path: Path, message: string): void => {
    const { line, col } = lineCounter.linePos(offset)
    const place = { line: Math.max(line, 1), column: Math.max(col, 1) }
    problems.push({ ...place, path: formatPath(path), message })
  }

  const document = readDocument(text, lineCounter)
  if (document === undefined) report(0, [], 'is nested too deeply; no key lies that deep')
  for (const { code, message, pos } of [
    ...(document?.errors ?? []),
    ...(document?.warnings ?? []),
  ]) {
    // The walk reports tags itself, with their path.
    if (message.startsWith('Unresolved tag')) continue
    report(pos[0], [], syntaxFault(code, message))
  }
  if (document === undefined || problems.length > 0) throw new ConfigError(file, problems)

  const holes = new Set<string>()
  const tree = toTree({ env, report, holes }, document.contents, { path: [], from: 0 })
  if (!isGroup(tree)) {
    const empty = tree === '' && problems.length === 0
    if (empty) report(0, [], 'is empty; write at least one key, such as clients:')
    else if (tree !== '') report(0, [], 'is not a group of keys; write KEY: VALUE lines')
    throw new ConfigError(file, problems)
  }
  const revision = createHash('sha256').update(text).digest('hex').slice(0, 12)
  const result = parseConfig(tree, revision)
  if ('problems' in result) {
    for (const problem of result.problems) {
      if (startsWithHole(holes, problem.path)) continue
      report(locate(document, problem), problem.path, problem.message)
    }
  }
  if (problems.length > 0 || 'problems' in result) throw new ConfigError(file, problems)
  return result.config
}

const reasonOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'

const readText = (file: string): string => {
  const refuse = (message: string): ConfigError =>
    new ConfigError(file, [{ line: 1, column: 1, path: formatPath([]), message }])
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (error) {
    throw refuse(`cannot be read (${reasonOf(error)}); check its name and permissions`)
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw refuse('is not UTF-8 text; save it in that encoding')
  }
}

/** Reads and parses a file. Throws ConfigError with every problem, an unreadable file among them. */
export const loadConfig = (file: string, env: Environment): Config =>
  parseConfigText(readText(file), { file, env })
