/** YAML text as a tree, with the place of each value in it. The only file that knows YAML. */
import { Document, LineCounter, isAlias, isMap, isScalar, isSeq } from 'yaml'
import { parseDocument, visit, type YAMLError } from 'yaml'
import { substitute, type Environment } from './environment.ts'
import { PROBLEMS_AT_MOST, showValue } from './problems.ts'
import type { ConfigProblem, Path, PathProblem, Place } from './problems.ts'
import { isReservedName, reservedNameFault } from './scalars.ts'
import { mayHoldLogin } from './store.ts'
import { textAt, type Tree } from './tree.ts'

export { isCollection, isMap, isPair, isScalar, isSeq, type Node, type Pair } from 'yaml'

/** A parsed text. */
export interface Reading {
  /** undefined: nothing could be read, as the faults say. */
  readonly tree: Tree | undefined
  /** What is wrong with the text itself. */
  readonly faults: readonly ConfigProblem[]
  /** Place of a problem of the tree: its key or value, or the nearest parent in the text. */
  readonly locate: (problem: Pick<PathProblem, 'path' | 'at'>) => Place
  /** Whether the value at the path could not be read, so that the schema's verdict on it does not count. */
  readonly isHole: (path: Path) => boolean
  /** Whether the value at the path comes from the environment: it may be a secret. */
  readonly isForeign: (path: Path) => boolean
}

/** A problem with its place and its value, unless that may be a secret. tree: with the defaults, which a problem may refer to. */
export const placed = (
  problem: PathProblem,
  reading: Reading,
  tree = reading.tree,
): ConfigProblem => {
  const { path } = problem
  const isHidden = reading.isForeign(path) || mayHoldLogin(path.at(-1))
  const value = isHidden ? undefined : textAt(tree, ...path)
  return { ...reading.locate(problem), path, message: showValue(problem, value).message }
}

/** Deeper than any key of the schema; this limit keeps a hostile file from exhausting the stack. */
const maxDepth = 32

const tooDeep = 'is nested too deeply; no key lies this deep'
const writtenTwice = 'is written twice; keep one'
const tagFault = 'has a tag; remove it, each key knows its type'

/** Where a key and its value begin, as offsets, and what the walk found there. */
interface Spot {
  readonly key: number
  readonly value: number
  isHole?: boolean
  isForeign?: boolean
}

interface Walk {
  /** undefined: `${NAME}` is ordinary text. */
  readonly env: Environment | undefined
  readonly report: (offset: number, path: Path, message: string) => void
  /** Spots by their path in JSON. */
  readonly spots: Map<string, Spot>
}

const offsetOf = (node: unknown, fallback: number): number =>
  (node as { readonly range?: readonly number[] | null } | null)?.range?.[0] ?? fallback

/** The failsafe schema leaves every scalar as the text it was written with. */
const scalarText = (node: unknown): string =>
  isScalar(node) && typeof node.value === 'string' ? node.value : ''

const isTagged = (node: unknown): boolean =>
  (node as { readonly tag?: string } | null)?.tag !== undefined

/** keyOffset: undefined for what has no key. */
const toTree = (walk: Walk, node: unknown, path: Path, keyOffset?: number): Tree => {
  const value = offsetOf(node, keyOffset ?? 0)
  const spot: Spot = { key: keyOffset ?? value, value }
  walk.spots.set(JSON.stringify(path), spot)
  const refuse = (message: string): Tree => {
    walk.report(value, path, message)
    spot.isHole = true
    return ''
  }
  if (isAlias(node)) return refuse('is an alias; write the value out')
  if (isTagged(node)) return refuse(tagFault)
  if (path.length > maxDepth) return refuse(tooDeep)
  if (isSeq(node)) return node.items.map((item, index) => toTree(walk, item, [...path, index]))
  if (!isMap(node)) {
    const written = scalarText(node)
    if (walk.env === undefined) return written
    const { text, faults } = substitute(written, walk.env)
    for (const fault of faults) refuse(fault)
    spot.isForeign = text !== written
    return text
  }
  const group: Record<string, Tree> = {}
  for (const pair of node.items) {
    const key = scalarText(pair.key)
    const keyPath = [...path, key]
    const keyOffset = offsetOf(pair.key, value)
    if (isReservedName(key)) walk.report(keyOffset, keyPath, reservedNameFault)
    else if (isTagged(pair.key)) walk.report(keyOffset, keyPath, tagFault)
    else if (Object.hasOwn(group, key)) walk.report(keyOffset, keyPath, writtenTwice)
    else group[key] = toTree(walk, pair.value, keyPath, keyOffset)
  }
  return group
}

interface LocatedMessage {
  readonly offset: number
  readonly message: string
}

const indentFault =
  'is indented unlike the lines beside it; give all keys and dashes of one group the same number of blanks'

const knownFaults: ReadonlyMap<string, string> = new Map([
  ['MULTIPLE_DOCS', 'has a second document here; keep one document in the file'],
  ['TAG_RESOLVE_FAILED', tagFault],
  ['BAD_DIRECTIVE', 'has a directive here; remove the line that starts with "%"'],
  ['BAD_DQ_ESCAPE', 'has an unknown escape in double quotes; write \\\\ for a plain \\'],
  ['TAB_AS_INDENT', 'is indented with a tab; use blanks'],
  [
    'MULTILINE_IMPLICIT_KEY',
    'has no ": " on this line; write KEY: VALUE, with a blank before VALUE',
  ],
  [
    'BLOCK_AS_IMPLICIT_KEY',
    'has a second ": " on this line; put the value in quotes, or each key on a line of its own',
  ],
])

const misaligned = /at the same column$|^Sequence item without - indicator$/

/** The first character at or after the offset that is no blank. */
const afterBlanks = (text: string, offset: number): number =>
  offset + (/^ */.exec(text.slice(offset))?.[0].length ?? 0)

const describe = (text: string, fault: YAMLError, others: readonly YAMLError[]): LocatedMessage => {
  const { code, message, pos } = fault
  const [offset] = pos
  const isDeeper =
    code.endsWith('_IMPLICIT_KEY') &&
    others.filter((other) => other.code.endsWith('_IMPLICIT_KEY') && other.pos[0] === offset)
      .length > 1
  if (isDeeper) {
    // A line that is indented more goes on with the value above.
    const next = text.indexOf('\n', offset) + 1
    return { offset: afterBlanks(text, next), message: indentFault }
  }
  const startsLine = code === 'UNEXPECTED_TOKEN' && text[offset - 1] === '\n'
  if (misaligned.test(message) || startsLine)
    return { offset: afterBlanks(text, offset), message: indentFault }
  const reason = message.replace(/(?<=\w): .*$/s, '')
  return {
    offset,
    message: knownFaults.get(code) ?? `is not YAML (${reason}); correct the text here`,
  }
}

/** One problem per place: what is not YAML, and where to look. No message quotes the file, which may hold a secret there. */
const describeYamlFaults = (
  document: Document.Parsed,
  text: string,
  faults: readonly YAMLError[],
): LocatedMessage[] => {
  const unclosed = faults.find(({ message }) => message.startsWith('Missing closing'))
  if (unclosed !== undefined) {
    // The parser searches all that follows for the closing quote, and so misreads it: the value begins far before its end.
    let [offset] = unclosed.pos
    visit(document, {
      Scalar: (_, { type, range }) => {
        if (type?.startsWith('QUOTE') && range?.[1] === unclosed.pos[0]) offset = range[0]
      },
    })
    return [
      { offset, message: 'has a quote that nothing closes; end the value with the same quote' },
    ]
  }
  // An unexpected token misplaces all that follows it.
  const first = faults.findIndex(({ code }) => code === 'UNEXPECTED_TOKEN')
  const problems = faults
    .filter(({ code }, index) => code !== 'UNEXPECTED_TOKEN' || index === first)
    .map((fault) => describe(text, fault, faults))
  return problems.filter(
    ({ offset }, index) => problems.findIndex((other) => other.offset === offset) === index,
  )
}

/** YAML 1.2 with every scalar as text; undefined when nesting exhausts the parser's stack. */
export const parseYaml = (text: string, lineCounter = new LineCounter()) => {
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

/** env: what `${NAME}` in a value stands for; undefined: nothing. */
export const readYaml = (text: string, env: Environment | undefined): Reading => {
  const lineCounter = new LineCounter()
  const placeOf = (offset: number): Place => {
    const { line, col } = lineCounter.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const faults: ConfigProblem[] = []
  const report = (offset: number, path: Path, message: string): void => {
    if (faults.length < PROBLEMS_AT_MOST) faults.push({ ...placeOf(offset), path, message })
  }
  const spots = new Map<string, Spot>()
  const spotAt = (path: Path): Spot | undefined => spots.get(JSON.stringify(path))
  const document = parseYaml(text, lineCounter)
  if (document === undefined) report(0, [], 'is nested too deeply; no key lies that deep')
  // The walk reports tags itself, with their path.
  const broken = [...(document?.errors ?? []), ...(document?.warnings ?? [])]
    .filter(({ message }) => !message.startsWith('Unresolved tag'))
    .slice(0, PROBLEMS_AT_MOST)
  if (document !== undefined && broken.length > 0)
    for (const { offset, message } of describeYamlFaults(document, text, broken))
      report(offset, [], message)
  const tree =
    document === undefined || faults.length > 0
      ? undefined
      : toTree({ env, report, spots }, document.contents, [])
  const locate: Reading['locate'] = ({ path, at }) => {
    const spot = spotAt(path)
    if (spot !== undefined) return placeOf(at === 'key' ? spot.key : spot.value)
    return path.length === 0 ? placeOf(0) : locate({ path: path.slice(0, -1), at: 'key' })
  }
  return {
    tree,
    faults,
    locate,
    isHole: (path) => path.some((_, index) => spotAt(path.slice(0, index + 1))?.isHole),
    isForeign: (path) => spotAt(path)?.isForeign === true,
  }
}

/** Writes a value with every scalar as text: each item of a list and each key on a line, a group in a group in braces. style: all in braces, on one line; or nothing in braces. */
export const yamlLines = (value: unknown, style?: 'flow' | 'block'): string[] => {
  const asText = (_: unknown, part: unknown): unknown =>
    typeof part === 'number' ? String(part) : part
  const document = new Document(value, asText, { schema: 'failsafe' })
  visit(document, {
    Pair: (_, pair) => {
      if (isMap(pair.value) && style !== 'block') pair.value.flow = true
    },
  })
  const options = { lineWidth: 0, collectionStyle: style === 'flow' ? style : 'any' } as const
  return document.toString(options).trimEnd().split('\n')
}
