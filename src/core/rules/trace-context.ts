/** Reads and writes the trace context of a request, as W3C Trace Context Level 2 has it. */

export interface TraceParent {
  /** 32 lower-case hex digits. */
  readonly traceId: string
  /** Id of the caller's span, 16 lower-case hex digits. */
  readonly spanId: string
  /** SAMPLED and RANDOM, as far as they are set. */
  readonly flags: number
}

/** The sender records the request. */
export const SAMPLED = 1
/** The last seven bytes of the trace id, or more, are random. */
export const RANDOM = 2

/** version, trace id, parent id, flags; later versions may add more behind another hyphen (3.2.4). */
const shape = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?$/
const zeros = /^0+$/

/** Returns undefined for an invalid value, so that a new trace begins. Two values joined by a comma are invalid. */
export function readTraceParent(value: string): TraceParent | undefined {
  const [, version, traceId = '', spanId = '', bits = '', more] = shape.exec(value) ?? []
  if (version === undefined || version === 'ff') return undefined
  if (version === '00' && more !== undefined) return undefined
  if (zeros.test(traceId) || zeros.test(spanId)) return undefined
  return { traceId, spanId, flags: Number.parseInt(bits, 16) & (SAMPLED | RANDOM) }
}

export const writeTraceParent = ({ traceId, spanId, flags }: TraceParent): string =>
  `00-${traceId}-${spanId}-0${flags}`

const MEMBERS_AT_MOST = 32
/** A key and its value (3.3.1.3). */
const member = /^([a-z0-9][a-z0-9_\-*/@]{0,255})=[ !-+\--<>-~]{0,255}[!-+\--<>-~]$/

/** Returns the value to pass on; undefined when it is empty or invalid, and left out whole. */
export function readTraceState(value: string): string | undefined {
  // Anybody may send it, so the split is bounded.
  const members = value.split(',', MEMBERS_AT_MOST + 1)
  if (members.length > MEMBERS_AT_MOST) return undefined
  const given = members.map((one) => one.trim()).filter((one) => one !== '')
  if (given.length === 0) return undefined
  const keys = new Set(given.map((one) => member.exec(one)?.[1]))
  return keys.size === given.length && !keys.has(undefined) ? given.join(',') : undefined
}

const fieldOfTrace = /^trace(?:parent|state)$/i

/** Returns the fields of a request, flat, with the given trace context in place of the client's; traceparent is last. */
export function withTraceContext(
  fields: readonly string[],
  traceparent: string,
  tracestate: string | undefined,
): string[] {
  const isKept = (_: string, at: number): boolean => !fieldOfTrace.test(fields[at & ~1] ?? '')
  const kept = fields.filter(isKept)
  if (tracestate !== undefined) kept.push('tracestate', tracestate)
  kept.push('traceparent', traceparent)
  return kept
}
