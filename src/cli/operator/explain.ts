/** `tollgate explain` with a running gateway: why a recent request was answered as it was, or why one would be. */
import type { ExplainAnswer, Explanation, ExplainQuery } from '../../insight/api/explain.ts'
import { OK, usageFault } from '../terminal/fault.ts'
import { lookOf } from '../terminal/look.ts'
import { ask } from './admin-client.ts'
import { gatewayOf, type Asking, type Output } from './asking.ts'
import { explainedLines } from './explained-text.ts'

export interface ExplainOptions extends Asking {
  /** A request id, or a request line such as "GET /v1/pets". */
  readonly what: string
  readonly key?: string
  /** Written as "Name: value". */
  readonly header?: readonly string[]
}

export async function explainCommand(output: Output, options: ExplainOptions): Promise<number> {
  const body = queryOf(options)
  const call = { method: 'POST', body } as const
  const answer = await ask<ExplainAnswer>(gatewayOf(output, options), '/api/explain', call)
  const { explanation, missing = [], asOf } = answer
  for (const what of missing) output.complain(`missing: ${what}`)
  printExplanation(output, options, explanation, Date.parse(asOf))
  return OK
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

function queryOf({ what, key, header = [] }: ExplainOptions): ExplainQuery {
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
