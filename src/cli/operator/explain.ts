/** `tollgate explain`: why a request was answered as it was, or how one would be: by a running gateway, a log, or a configuration. */
import type { ExplainQuery } from '../../admin/explain/operations.ts'
import type { ExplainAnswer, Explanation } from '../../insight/api/explain.ts'
import { windowNames } from '../../config/time.ts'
import { usageFault } from '../terminal/fault.ts'
import { wordsOf } from '../../admin/explain/words.ts'
import { lookOf, safe } from '../terminal/look.ts'
import type { Declaration } from '../program.ts'
import type { Edge, Output, Texts } from '../edge.ts'
import { ask, asking, gatewayOf, type Asking } from './asking.ts'

export const USED_FORM = `${windowNames.join('=N,')}=N`
const several = (value: string, earlier: readonly string[] = []) => [...earlier, value]

export interface AskedExplanation extends Asking, Texts<'key' | 'log' | 'config' | 'used' | 'at'> {
  /** A request id, or a request line such as "GET /v1/pets". */
  readonly what: string
  readonly header?: readonly string[]
}

/** A method or a path alone: no id of a request looks like it. */
const HALF_A_REQUEST = /^(?:\/\S*|GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT)$/i

/** Refuses options that would be ignored in silence. */
function checkOptions({ what, log, config, key, header, used, at }: AskedExplanation): void {
  if (HALF_A_REQUEST.test(what.trim()))
    throw usageFault(`${what}: write a request as "GET /v1/pets/7", with --key`)
  if (log !== undefined && (used ?? key ?? header) !== undefined)
    throw usageFault('--used, --key and -H are of a request such as "GET /v1/pets", not of --log')
  if (used !== undefined && config === undefined) throw usageFault('--used needs --config')
  if (at !== undefined && (config ?? log) === undefined)
    throw usageFault('--at needs --config, or --log')
}

export const explain: Declaration = (program, { once }) =>
  asking(program, 'explain', 'why a request was answered as it was, or how one would be')
    .argument('<what>', 'a request id, or a request such as "GET /v1/pets/7"')
    .option('--key <key-id>', 'whose request it would be (default: without a credential)')
    .option('-H, --header <line>', 'of the request, as "Name: value"; may be repeated', several)
    .option('--log <file>', 'look for the request id there (.gz too); best with --config')
    .option('--config <file>', 'explain by this configuration, and ask no gateway')
    .option('--used <counts>', `what its client has used, as ${USED_FORM} (default: 0)`)
    .option('--at <time>', 'when it would come; of several in the log when it began')
    .action(once(() => explainCommand))

async function explainCommand(edge: Edge, asked: AskedExplanation): Promise<void> {
  checkOptions(asked)
  const { log, config } = asked
  if ((log ?? config) !== undefined) {
    const { explainLoggedCommand, explainOfflineCommand } = await import('../explain-offline.ts')
    if (log !== undefined) return explainLoggedCommand(edge, { ...asked, log })
    if (config !== undefined) return explainOfflineCommand(edge, { ...asked, config })
  }
  const call = { method: 'POST', body: queryOf(asked) } as const
  const answer = await ask<ExplainAnswer>(gatewayOf(edge, asked), '/api/explain', call)
  const { explanation, missing = [], asOf } = answer
  printExplanation(edge, asked, explanation, Date.parse(asOf))
  const quiet = (line: string) => lookOf(edge)?.paint('dim', line) ?? line
  for (const what of missing) edge.complain(quiet(`missing: ${what}`))
}

export function printExplanation(
  ...[output, { json = false }, explanation, nowMs]: [Output, Asking, Explanation, number]
): void {
  if (json) return output.print(JSON.stringify(explanation, undefined, 2))
  const look = lookOf(output)
  const colour = explanation.code === null ? 'green' : 'red'
  for (const line of explainedLines(explanation, look?.columns ?? 80, nowMs))
    output.print(look !== undefined && /^[=*] /.test(line) ? look.paint(colour, line) : line)
}

function queryOf({ what, key, header = [] }: AskedExplanation): ExplainQuery {
  const asked = requestLine(what)
  if (asked !== undefined)
    return { ...asked, ...(key !== undefined && { keyId: key }), headers: headersOf(header) }
  if (key === undefined && header.length === 0) return { requestId: what }
  throw usageFault('--key and -H are of a request such as "GET /v1/pets", not of a request id')
}

/** Parses a request line; undefined: it is a request id. */
export function requestLine(what: string): { method: string; target: string } | undefined {
  const [, method, target] = /^(\S+) +(\S+)$/.exec(what) ?? []
  return method === undefined || target === undefined ? undefined : { method, target }
}

/** Headers as the API takes them: each name once. */
function headersOf(lines: readonly string[]): Record<string, string> {
  const pairs = headerPairs(lines)
  const names = new Set(pairs.map(([name]) => name.toLowerCase()))
  if (names.size < pairs.length) throw usageFault('-H: each header stands once')
  return Object.fromEntries(pairs)
}

export const headerPairs = (lines: readonly string[]) =>
  lines.map((line): readonly [string, string] => {
    const [, name, value = ''] = /^([^:\s]+):\s*(.*)$/.exec(line) ?? []
    // The message never quotes the header: it may be a token.
    if (name === undefined) throw usageFault('-H: write it as "Name: value"')
    return [name, value]
  })

/** Minimum width for the finding of a stage. */
const RULE_AT_LEAST = 24

/** An explanation as lines of a terminal: the request, the answer, each stage, and what would change it. columns: width of a line. nowMs: Unix time; times of its day are written without the date. */
export function explainedLines(explanation: Explanation, columns: number, nowMs: number): string[] {
  const { asked, answer, stages, more } = wordsOf(explanation, nowMs)
  const widest = (cells: readonly string[]): number =>
    Math.max(...cells.map((cell) => safe(cell).length))
  const stageWidth = widest(stages.map(({ stage }) => stage))
  const verdictWidth = widest(stages.map(({ verdict }) => verdict))
  const before = 2 + stageWidth + 1 + verdictWidth + 1
  const placeWidth = widest(stages.map(({ config }) => config))
  const room = Math.max(RULE_AT_LEAST, columns - before - 1 - placeWidth)
  const rules = stages.map(({ rule }) => folded(safe(rule).split(' '), room, ' ', ''))
  const ruleWidth = widest(rules.flat())
  return [
    ...folded(asked.map(safe), columns, '  '),
    ...folded(safe(`= ${answer}`).split(' '), columns, ' '),
    ...stages.flatMap(({ stage, decides, verdict, config }, at) => {
      const [first = '', ...rest] = rules[at] ?? []
      const head = `${decides ? '* ' : '  '}${stage.padEnd(stageWidth)} ${verdict.padEnd(verdictWidth)} `
      const lines = rest.map((line) => ' '.repeat(before) + line)
      return [`${head}${first.padEnd(ruleWidth)} ${safe(config)}`.trimEnd(), ...lines]
    }),
    ...more.flatMap(([name, text]) => folded(safe(`${name}: ${text}`).split(' '), columns, ' ')),
  ]
}

/** Folds words into lines, indented after the first. Words are never cut: one longer than a line stands alone. */
function folded(
  words: readonly string[],
  columns: number,
  gap: string,
  indent = '  ',
): readonly string[] {
  const lines: string[] = []
  let line = words[0] ?? ''
  for (const word of words.slice(1)) {
    if (line.length + gap.length + word.length <= columns) line += gap + word
    else {
      lines.push(line)
      line = indent + word
    }
  }
  return [...lines, line]
}
