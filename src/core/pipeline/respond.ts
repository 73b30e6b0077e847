/** Writes every answer that the gateway itself makes. */
import type { ServerEvents } from '../http/server-parts.ts'
import { VIA } from '../rules/field-names.ts'
import { METHODS } from '../rules/framing.ts'
import { refusalKinds, type Refusal } from '../rules/refusals.ts'
import { peekAnonymous } from './authenticate.ts'
import { NO_HEADERS } from './exchange.ts'
import type { Charges, Exchange, PipelineParts, Policy } from './exchange.ts'
import { giveUp } from './take-quota.ts'

/** A refused body up to this size is read and dropped, so that the connection can be used again. */
const DRAINED_BODY_BYTES = 65_536

/** After so many refused requests in a row a connection is closed: further ones would cost the client less than a new connection. */
const REFUSED_AT_MOST = 100

type Answered = Pick<Exchange, 'id' | 'quotaHeaders' | 'corsHeaders' | 'terms' | 'connection'> &
  Partial<Pick<Exchange, 'route'>>

/** The gateway's own header fields of every answer, flat. */
export function gatewayHeaders(exchange: Answered): string[] {
  const headers = ['X-Request-Id', exchange.id]
  for (const text of exchange.quotaHeaders) headers.push(text)
  for (const text of exchange.route?.lifecycleHeaders ?? NO_HEADERS) headers.push(text)
  for (const text of exchange.corsHeaders) headers.push(text)
  const { hsts } = exchange.terms
  // RFC 6797 7.2: never over plain HTTP, where anybody could have answered.
  if (hsts !== undefined && exchange.connection.origin.proto === 'https')
    headers.push('Strict-Transport-Security', hsts)
  return headers
}

/** Answers with a refusal, or destroys the response when an answer has been started. */
export function respond(exchange: Exchange, refusal: Refusal): void {
  const { response } = exchange
  // The first refusal stands: a body may break off while the request is still being decided.
  if (exchange.refusal !== undefined || exchange.endedMs !== undefined) return
  exchange.refusal = refusal
  exchange.cause = refusal.cause
  if (response.headersSent || response.destroyed) return void response.destroy()
  const kind = refusalKinds[refusal.code]
  exchange.status = kind.status
  const { body, headers: fields } = refusal.answer
  const headers = gatewayHeaders(exchange)
  headers.push('Via', VIA)
  for (const text of fields) headers.push(text)
  const unwelcome = isUnwelcome(exchange, refusal)
  if (kind.close || hasUnreadBody(exchange) || unwelcome) response.shouldKeepAlive = false
  if (unwelcome) response.endConnection?.()
  exchange.responseBytes = exchange.request.method === 'HEAD' ? 0 : body.length
  response.send(kind.status, headers, body)
}

/** Answers OPTIONS *, which asks what the gateway itself can do (RFC 9110 9.3.7); it concerns no backend and no quota. */
export function answerAsterisk(exchange: Exchange): void {
  answerEmpty(exchange, 200, ['Allow', [...METHODS].join(', '), 'Content-Length', '0'])
}

/** Answers without a body. fields: flat. */
export function answerEmpty(
  exchange: Exchange,
  status: 200 | 204,
  fields: readonly string[],
): void {
  const { response } = exchange
  // A body may break off while something is waited for, and is refused then; or the client leaves.
  if (exchange.refusal !== undefined || exchange.endedMs !== undefined) return
  exchange.status = status
  if (hasUnreadBody(exchange)) response.shouldKeepAlive = false
  response.send(status, [...gatewayHeaders(exchange), 'Via', VIA, ...fields])
}

/** Whether an unread body has to end the connection; a small declared one is read and dropped. */
function hasUnreadBody({ hasBody, bodyBytes, framing, request }: Exchange): boolean {
  if (!hasBody || request.complete) return false
  // Whether a client that waits for 100 still sends its body after a final status is its choice (RFC 9110 10.1.1).
  return framing.expectsContinue || bodyBytes === undefined || bodyBytes > DRAINED_BODY_BYTES
}

/** Whether a client goes on although it is refused. A trusted proxy is spared, as its connections carry many clients. */
function isUnwelcome({ sender, refusedBefore, caller }: Exchange, { code }: Refusal): boolean {
  if (sender.peerTrusted) return false
  return (
    refusedBefore >= REFUSED_AT_MOST - 1 || (code === 'rate_limit_exceeded' && caller === undefined)
  )
}

/** Answers what came on an HTTP/1.1 connection and is no request, or did not arrive in time. Nothing more is read on the connection. */
export async function refuseUnparsed(
  parts: PipelineParts,
  policy: Policy,
  [connection, response, refusal, seen]: Parameters<ServerEvents['unreadable']>,
): Promise<void> {
  parts.metrics.requests.refusedUnparsed(refusal.code)
  const { address } = connection.origin
  const id = parts.requestId(undefined)
  const target = /^[A-Z]{1,32} (\S+)/.exec(seen)?.[1]
  parts.log.clientError({ id, address, code: refusal.cause ?? '', target })
  const { key } = policy.clientAddress(address, undefined)
  const quotaHeaders = await peekAnonymous(policy, key)
  // The Origin, if it has come. A wrong reading does no harm: only a page of an allowed origin can make use of it.
  const origin = /\r\nOrigin:[ \t]*(\S+)[ \t]*\r\n/i.exec(seen)?.[1]
  const corsHeaders = policy.cors?.answerHeaders(origin) ?? NO_HEADERS
  const { body, headers } = refusal.answer
  const own = gatewayHeaders({ id, quotaHeaders, corsHeaders, terms: policy.terms, connection })
  response.send(refusalKinds[refusal.code].status, [...own, 'Via', VIA, ...headers], body)
}

/** Gives up what is under way for a request and answers with a refusal; an answer that has been started is cut off. */
export function giveUpWith(charges: Charges, exchange: Exchange, refusal: Refusal): void {
  giveUp(charges, exchange)
  if (exchange.response.headersSent) return void exchange.response.destroy()
  respond(exchange, refusal)
}
