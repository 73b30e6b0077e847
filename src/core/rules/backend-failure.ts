/** Classifies failed or unusable exchanges with a backend: their kind, whether to repeat them, and the client's answer. */
import { fieldOf } from './field-names.ts'
import type { RefusalCode } from './refusals.ts'

/** The refusal that the client gets for each kind of failure; undefined when the client has left. */
export const backendFailureCodes = {
  /** No connection could be made: nothing was sent, the charge is handed back. */
  unreachable: 'bad_gateway',
  /** No connection was made in time: nothing was sent, the charge is handed back. */
  connect_timeout: 'gateway_timeout',
  /** The line for a backend is full: nothing was sent, the charge is handed back. */
  saturated: 'service_unavailable',
  /** The request was sent, but no complete answer head (or no next body bytes) came in time. */
  response_timeout: 'gateway_timeout',
  /** The connection died, or the answer cannot be passed on. */
  broken: 'bad_gateway',
  /** The client's chunked body passed the limit. */
  body_too_large: 'body_too_large',
  client_gone: undefined,
} as const satisfies Record<string, RefusalCode | undefined>

export type BackendFailureKind = keyof typeof backendFailureCodes

export const backendFailureKinds = Object.keys(backendFailureCodes) as BackendFailureKind[]

/**
 * The kind of a failure of the connection, from the error's code (or name, where it has no code).
 * sent: a connection had been made and the request was on its way.
 */
export function backendFailureKind(code: string, sent: boolean): BackendFailureKind {
  if (sent) return 'broken'
  return code === 'ECONNECT_TIMEOUT' || code === 'ETIMEDOUT' ? 'connect_timeout' : 'unreachable'
}

// RFC 9110 section 9.2.2
const idempotentMethods = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])

export const isIdempotent = (method: string): boolean => idempotentMethods.has(method)

/** Why a backend's answer is not passed on, or only in part. */
export interface BackendFailure {
  readonly kind: BackendFailureKind
  /** For the log only. */
  readonly cause: string
}

/** How one request to one backend failed, and how far it had come. */
export interface FailedAttempt extends BackendFailure {
  /** sent: the request was on its way over a connection. */
  readonly phase: 'connecting' | 'sent'
  /** Some of the client's body was taken and cannot be sent a second time. */
  readonly bodyTouched: boolean
  /** The connection had carried an earlier request. */
  readonly reusedConnection: boolean
  /** One or more bytes of an answer have come. */
  readonly answerBegun: boolean
}

/** How far a request has come when the fault is in its answer. */
export const answered = {
  phase: 'sent',
  bodyTouched: true,
  reusedConnection: false,
  answerBegun: true,
} as const

/** Whether no connection was made: no backend has seen any of the request, so that its charge is handed back. */
export function couldNotConnect({ phase, kind }: Pick<FailedAttempt, 'phase' | 'kind'>): boolean {
  const isUnsent = kind === 'unreachable' || kind === 'connect_timeout' || kind === 'saturated'
  return phase === 'connecting' && isUnsent
}

/** Whether the backend had already closed the connection that the request was sent on (RFC 9112 section 9.3.1): nobody is to blame. */
export function isStale({ kind, phase, reusedConnection, answerBegun }: FailedAttempt): boolean {
  return kind === 'broken' && phase === 'sent' && reusedConnection && !answerBegun
}

/** Whether the backend is to blame: it could not be reached, was silent, or broke its answer or its connection. */
export function speaksAgainstBackend(failed: FailedAttempt): boolean {
  if (failed.phase === 'connecting') return couldNotConnect(failed)
  return failed.kind === 'response_timeout' || (failed.kind === 'broken' && !isStale(failed))
}

/** Whether the backend answers that it could not do its work (RFC 9110 sections 15.6.3 to 15.6.5). */
export const isGatewayFault = (status: number): boolean => status >= 502 && status <= 504

/** Whether the request may be sent again: it never left the gateway, or doing its work twice does no harm. */
export function mayRepeat(method: string, failed: FailedAttempt): boolean {
  if (failed.bodyTouched || failed.answerBegun) return false
  if (failed.phase === 'connecting') return couldNotConnect(failed)
  return (failed.kind === 'broken' || failed.kind === 'response_timeout') && isIdempotent(method)
}

const maxHeaderFields = 1_000

/**
 * Why a final answer's head cannot be passed on; undefined when it can.
 * headers: flat name, value array.
 */
export function unusableAnswer(status: number, headers: readonly string[]): string | undefined {
  if (status === 101) return 'switched protocols without being asked'
  if (status < 200 || status > 599) return `status ${status}`
  // Node's parser silently drops fields beyond its cap of 1000.
  if (headers.length >= 2 * maxHeaderFields) return `${maxHeaderFields} header fields or more`
  return undefined
}

/** Why the fields of an answer that Node's parser has read leave its framing open; undefined: they do not. */
export function ambiguousFields(headers: readonly string[]): string | undefined {
  if (headers.some((name, at) => at % 2 === 0 && name.includes(' ')))
    return 'a space in a header field name'
  // RFC 9112 section 6.1: nobody asked for another coding, and it would be lost with the field.
  const coding = fieldOf(headers, 'transfer-encoding') ?? 'chunked'
  return coding.toLowerCase() === 'chunked' ? undefined : 'an unknown transfer coding'
}

/** Whether a faulty backend may send a body where the answer has none, which the next request would then receive. */
export function moreMayCome(method: string, status: number, headers: readonly string[]): boolean {
  if (method === 'HEAD') return true
  // Without either field the body would end with the connection (RFC 9112 section 6.3).
  const framing = fieldOf(headers, 'content-length') ?? fieldOf(headers, 'transfer-encoding')
  return (status === 204 || status === 304) && framing !== undefined
}
