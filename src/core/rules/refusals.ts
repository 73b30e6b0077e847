/** Lists everything that the gateway itself may answer with. Codes are public and are never reused. */
import type { WindowName } from '../../config/time.ts'

/** Statuses after which a connection is closed: it cannot be trusted, or still has unread bytes. */
const CLOSING = new Set([400, 408, 411, 413, 414, 431, 501])

const kind = (status: number, message: string) => ({
  status,
  message,
  close: CLOSING.has(status),
  /** 501 is the client's doing, the others above are not. */
  logLevel: status > 501 ? ('warn' as const) : ('info' as const),
})

export const refusalKinds = {
  invalid_request: kind(400, 'The request is malformed or ambiguous.'),
  missing_api_key: kind(401, 'Send your API key as "Authorization: Bearer <API_KEY>".'),
  invalid_api_key: kind(401, 'The API key is not valid.'),
  not_found: kind(404, 'There is nothing at this address.'),
  method_not_allowed: kind(405, 'This address does not take that method; see the Allow header.'),
  request_timeout: kind(408, 'The request did not arrive in time.'),
  length_required: kind(411, 'Send a Content-Length header or a chunked body.'),
  operation_in_brownout: kind(410, 'This operation is to go, and is switched off for the moment.'),
  operation_removed: kind(410, 'This operation is gone; see the Link header for what replaces it.'),
  body_too_large: kind(413, 'The request body is too large.'),
  uri_too_long: kind(414, 'The request target is too long.'),
  rate_limit_exceeded: kind(429, 'The request quota is used up.'),
  concurrency_limit_exceeded: kind(429, 'Too many requests of this client at once.'),
  api_key_banned: kind(429, 'This API key is banned.'),
  headers_too_large: kind(431, 'The request headers are too large or too many.'),
  method_not_implemented: kind(501, 'This method is not supported.'),
  bad_gateway: kind(
    502,
    'The service behind the gateway could not be reached or gave a broken answer.',
  ),
  service_unavailable: kind(503, 'The service is temporarily unavailable.'),
  overloaded: kind(503, 'The gateway has more work than it can do; try again shortly.'),
  gateway_timeout: kind(504, 'The service behind the gateway did not answer in time.'),
} as const

export type RefusalCode = keyof typeof refusalKinds

/** Fields in the body of a 429, beside the wait, so that no client has to parse its message. */
interface LimitFields {
  /** The exhausted window; absent: the limit belongs to no window. */
  readonly window?: WindowName
  readonly limit?: number
  /** Why a key is banned: it went on after 429 answers, or an operator banned it. The operator's own reason is not sent. */
  readonly reason?: 'strikes' | 'operator'
}

/**
 * The refusal of a request, as a value: refusals are ordinary results, only bugs throw.
 * It is a class so that all have one shape and each makes its answer once, as a flood is answered with few of them.
 */
export class Refusal {
  readonly code: RefusalCode
  /** Why, for the log only; never sent to the client. */
  readonly cause: string | undefined
  /** Sent after the fixed message of the code: numbers that help, such as limit, window and wait. */
  readonly detail: string | undefined
  /** Retry-After in whole seconds, at least 1. */
  readonly retryAfterSeconds: number | undefined
  /** The exhausted window of the quota. */
  readonly window: WindowName | undefined
  readonly limited: LimitFields | undefined
  /** Methods for the Allow header of a 405. */
  readonly allow: string | undefined
  /** Further header fields of the answer, flat. */
  readonly fields: readonly string[] | undefined
  #answer: ReturnType<typeof answerOf> | undefined

  constructor(code: RefusalCode, details?: RefusalDetails) {
    this.code = code
    Object.assign(this, details)
  }

  get answer(): ReturnType<typeof answerOf> {
    return (this.#answer ??= answerOf(this))
  }
}

/** What makes one refusal of a code different from another. */
type RefusalDetails = Partial<Omit<Refusal, 'code' | 'answer'>>

export function refuse(code: RefusalCode, details?: RefusalDetails): Refusal {
  return new Refusal(code, details)
}

export function isRefusal(value: unknown): value is Refusal {
  return value instanceof Refusal
}

/**
 * Makes the answer to a refusal: the JSON body, and its header fields (flat). It is made once per Refusal and shared by many
 * requests: a field that differs by request belongs in gatewayHeaders of respond.ts.
 */
function answerOf({ code, detail, limited, allow, retryAfterSeconds, fields }: Refusal) {
  const { status, message } = refusalKinds[code]
  const text = detail === undefined ? message : `${message} ${detail}`
  const error = { code, message: text, status }
  const waitSeconds = Math.max(1, retryAfterSeconds ?? 1)
  const body = Buffer.from(
    JSON.stringify(status === 429 ? { ...error, ...limited, retryAfter: waitSeconds } : error),
  )
  const headers = ['Content-Type', 'application/json; charset=utf-8']
  headers.push('Content-Length', String(body.length))
  if (fields !== undefined) headers.push(...fields)
  if (status === 401) headers.push('WWW-Authenticate', 'Bearer')
  if (allow !== undefined) headers.push('Allow', allow)
  if (retryAfterSeconds !== undefined) headers.push('Retry-After', String(waitSeconds))
  return { body, headers }
}
