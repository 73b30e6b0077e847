/** Answers what came on an HTTP/1.1 connection and is no request, or did not arrive in time. */
import type { ServerEvents } from '../http/server-parts.ts'
import { peekAnonymous } from './authenticate.ts'
import type { Charges, Exchange, PipelineParts, Policy } from './exchange.ts'
import { VIA } from '../rules/field-names.ts'
import { refusalKinds, type Refusal } from '../rules/refusals.ts'
import { respond } from './respond.ts'
import { giveUp } from './take-quota.ts'

/** Nothing more is read on the connection. */
export async function refuseUnparsed(
  parts: PipelineParts,
  policy: Policy,
  [{ current, origin }, response, refusal, seen]: Parameters<ServerEvents['unreadable']>,
): Promise<void> {
  if (current !== undefined) return interrupt(parts, current, refusal)
  parts.metrics.requests.refusedUnparsed(refusal.code)
  const { address, proto } = origin
  const id = parts.requestId(undefined)
  const target = /^[A-Z]{1,32} (\S+)/.exec(seen)?.[1]
  parts.log.clientError({ id, address, code: refusal.cause ?? '', target })
  const quota = await peekAnonymous(policy, policy.clientAddress(address, undefined).key)
  const { hsts } = policy.terms
  const strict = hsts !== undefined && proto === 'https' ? ['Strict-Transport-Security', hsts] : []
  const cors = policy.cors?.answerHeaders(originIn(seen)) ?? []
  const { body, headers } = refusal.answer
  const fields = ['X-Request-Id', id, ...quota, ...cors, ...strict, 'Via', VIA, ...headers]
  response.send(refusalKinds[refusal.code].status, fields, body)
}

/** Ends a request already being served whose body broke off or took too long. */
export function interrupt(charges: Charges, exchange: Exchange, refusal: Refusal): void {
  giveUp(charges, exchange)
  if (exchange.response.headersSent) return void exchange.response.destroy()
  respond(exchange, refusal)
}

/** The Origin, if it has come. A wrong reading does no harm: only a page of an allowed origin can make use of it. */
const originIn = (head: string): string | undefined =>
  /\r\nOrigin:[ \t]*(\S+)[ \t]*\r\n/i.exec(head)?.[1]
