/** What a failed or unusable backend exchange means: its kind, whether it may be repeated, and what the client is told. */
import type { RefusalCode } from './refusals.ts'

/** What the client is answered for each kind of failure; undefined when there is nobody left to answer. */
const refusalCodes = {
  /** No connection could be made: nothing was sent, the charge is handed back. */
  unreachable: 'bad_gateway',
  /** No connection in time: nothing was sent, the charge is handed back. */
  connect_timeout: 'gateway_timeout',
  /** More wait for a backend already than may: nothing was sent, the charge is handed back. */
  saturated: 'service_unavailable',
  /** Sent, but no complete answer head (or no next body bytes) in time. */
  response_timeout: 'gateway_timeout',
  /** The connection died, or the answer is not one that can be passed on. */
  broken: 'bad_gateway',
  /** The client's chunked body passed the limit. */
  body_too_large: 'body_too_large',
  client_gone: undefined,
} as const satisfies Record<string, RefusalCode | undefined>

export type BackendFailureKind = keyof typeof refusalCodes

export const backendFailureKinds = Object.keys(refusalCodes) as BackendFailureKind[]

/** Codes of the failures that the gateway itself finds out. */
export const ownFailureCodes = {
  bodyTooLarge: 'TOLLGATE_BODY_TOO_LARGE',
  clientGone: 'TOLLGATE_CLIENT_GONE',
} as const

const connectTimeoutCodes = new Set(['ECONNECT_TIMEOUT', 'ETIMEDOUT'])

/**
 * The kind of a failure, from the error's code (or name, where it has no code).
 * sent: a connection had been made and the request was on its way.
 */
export function backendFailureKind(code: string, sent: boolean): BackendFailureKind {
  if (code === ownFailureCodes.bodyTooLarge) return 'body_too_large'
  if (code === ownFailureCodes.clientGone) return 'client_gone'
  if (!sent) return connectTimeoutCodes.has(code) ? 'connect_timeout' : 'unreachable'
  return 'broken'
}

export function backendFailureCode<Kind extends BackendFailureKind>(
  kind: Kind,
): (typeof refusalCodes)[Kind] {
  return refusalCodes[kind]
}

/** No backend has seen anything of the request: its charge is handed back. */
export function neverReached(kind: BackendFailureKind): boolean {
  return kind === 'unreachable' || kind === 'connect_timeout' || kind === 'saturated'
}

// RFC 9110 section 9.2.2
const idempotentMethods = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])

export const isIdempotent = (method: string): boolean => idempotentMethods.has(method)

/** Why a backend's answer is not passed on, or not all of it. */
export interface BackendFailure {
  readonly kind: BackendFailureKind
  /** For the log only. */
  readonly cause: string
}

/** How one request to one backend failed, and how far it had come. */
export interface FailedAttempt extends BackendFailure {
  /** sent: on its way over a connection. */
  readonly phase: 'connecting' | 'sent'
  /** Some of the client's body was taken and cannot be sent a second time. */
  readonly bodyTouched: boolean
  /** The connection had carried an earlier request. */
  readonly reusedConnection: boolean
  /** At least one byte of an answer has come. */
  readonly answerBegun: boolean
}

/** Of a failure that is found in an answer. */
export const answered = {
  phase: 'sent',
  bodyTouched: true,
  reusedConnection: false,
  answerBegun: true,
} as const

/** No connection to the backend could be made. */
export function couldNotConnect({ phase, kind }: Pick<FailedAttempt, 'phase' | 'kind'>): boolean {
  return phase === 'connecting' && neverReached(kind)
}

/** A connection that the backend had closed already when the request was put on it (RFC 9112 section 9.3.1): nobody's fault. */
export function isStale({ kind, phase, reusedConnection, answerBegun }: FailedAttempt): boolean {
  return kind === 'broken' && phase === 'sent' && reusedConnection && !answerBegun
}

/** The backend is to blame: it could not be reached, was silent, or broke its answer or its connection. */
export function speaksAgainstBackend(failed: FailedAttempt): boolean {
  if (failed.phase === 'connecting') return neverReached(failed.kind)
  return failed.kind === 'response_timeout' || (failed.kind === 'broken' && !isStale(failed))
}

/** An answer of a backend that could not do its work (RFC 9110 sections 15.6.3 to 15.6.5). */
export const isGatewayFault = (status: number): boolean => status >= 502 && status <= 504

/** Whether the request may be sent once more without the risk of doing its work twice: it never left us, or to do it twice does no harm. */
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
  // Node's parser drops what passes its own cap of 1000 fields, silently.
  if (headers.length >= 2 * maxHeaderFields) return `${maxHeaderFields} header fields or more`
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? ''
    if (name.includes(' ')) return 'a space in a header field name'
    if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') {
      // RFC 9112 section 6.1: a coding that was not asked for and would be lost with the field.
      if ((headers[at + 1] ?? '').toLowerCase() !== 'chunked') return 'an unknown transfer coding'
    }
  }
  return undefined
}

/** The answer has no body, yet speaks of one, or may: a faulty backend sends it all the same, and the next request gets it. */
export function moreMayCome(method: string, status: number, headers: readonly string[]): boolean {
  if (method === 'HEAD') return true
  return (status === 204 || status === 304) && !endsWithConnection(headers)
}

/** The body ends where the connection does (RFC 9112 section 6.3), so a reset cuts it off without a trace. */
function endsWithConnection(headers: readonly string[]): boolean {
  for (let at = 0; at < headers.length; at += 2) {
    const name = (headers[at] ?? '').toLowerCase()
    if (name === 'content-length' || name === 'transfer-encoding') return false
  }
  return true
}
