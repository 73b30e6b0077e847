/** Answers a request that Node's parser gave up on, or that did not arrive in time, without overtaking earlier answers. */
import type { Socket } from 'node:net'
import type { ParserError } from '../http/inflow.ts'
import type { Exchange, PipelineParts } from './exchange.ts'
import type { Stages } from './pipeline.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import { respond, respondRaw } from './respond.ts'
import { giveUp, type Charges } from './take-quota.ts'

export function refuseUnparsed(
  parts: PipelineParts,
  policy: Stages,
  error: ParserError,
  socket: Socket,
): void {
  const state = parts.connections.of(socket)
  // RFC 9112 9.6: what follows a request that said it was the last one is not read.
  if (error.code === 'HPE_CLOSED_CONNECTION') return
  // A reset needs no answer, and a refused request whose body breaks off or never comes has had its own.
  if (state.pending === 0 && state.isBodyLeft) return void socket.destroy()
  if (error.code === 'ECONNRESET' || error.code === 'EPIPE' || !socket.writable) {
    return void socket.destroy()
  }
  // The last answer of this connection was given, or is on its way.
  if (state.closing) return
  state.closing = true
  const refusal = refusalFor(error, policy.urlBytes)
  const { latest } = state
  if (latest !== undefined && !latest.request.complete) return interrupt(parts, latest, refusal)
  const head = headOf(error)
  const target = /^[A-Z]{1,32} (\S+)/.exec(head)?.[1]
  const cors = policy.cors?.answerHeaders(originIn(head)) ?? []
  const answer = async (): Promise<void> => {
    parts.metrics.refusedUnparsed(refusal.code)
    const { address, proto } = state.origin
    const id = parts.requestId(undefined)
    parts.log.clientError({ id, address, code: refusal.cause ?? '', target })
    const quota = await policy.peekAnonymous(policy.clientAddress(address, undefined).key)
    const { hsts } = policy.terms
    const strict =
      hsts !== undefined && proto === 'https' ? ['Strict-Transport-Security', hsts] : []
    respondRaw(socket, refusal, ['X-Request-Id', id, ...quota, ...cors, ...strict])
  }
  // Earlier requests on this connection are still being answered: theirs come first.
  if (state.pending > 0) state.whenIdle = () => void answer()
  else void answer()
}

/** Ends a request already being served whose body broke off or took too long. */
export function interrupt(charges: Charges, exchange: Exchange, refusal: Refusal): void {
  giveUp(charges, exchange)
  if (exchange.response.headersSent) return void exchange.response.destroy()
  respond(exchange, refusal)
}

/** The refusal for a code of Node's parser (llhttp) or of its server's time-outs. */
function refusalFor(error: ParserError, urlBytes: number): Refusal {
  const cause = error.code ?? error.message
  const line = offendingLine(error)
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return refuse('request_timeout', { cause })
    case 'HPE_HEADER_OVERFLOW':
      // The parser counts target and fields together; a first line without an end was the target's fault.
      if (isLongTarget(line, urlBytes)) return refuse('uri_too_long', { cause })
      return refuse('headers_too_large', { cause })
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return refuse('body_too_large', { cause })
    case 'HPE_INVALID_METHOD':
      return refuse(isRequestLine(line) ? 'method_not_implemented' : 'invalid_request', { cause })
    default:
      return refuse('invalid_request', { cause })
  }
}

/** The packet from the start of the request in which the parser stopped, which is behind the last empty line. */
function headOf({ rawPacket, bytesParsed = 0 }: ParserError): string {
  if (rawPacket === undefined) return ''
  const before = rawPacket.subarray(0, bytesParsed).lastIndexOf('\r\n\r\n')
  return rawPacket.toString('latin1', before === -1 ? 0 : before + 4)
}

/** The Origin, if the packet contains it. A wrong reading does no harm: only a page of an allowed origin can make use of it. */
const originIn = (head: string): string | undefined =>
  /\r\nOrigin:[ \t]*(\S+)[ \t]*\r\n/i.exec(head)?.[1]

/** The packet from the start of the line in which the parser stopped, as good requests may stand before it. */
function offendingLine({ rawPacket, bytesParsed = 0 }: ParserError): string {
  if (rawPacket === undefined) return ''
  const before = rawPacket.subarray(0, bytesParsed)
  return rawPacket.toString('latin1', before.lastIndexOf('\n') + 1)
}

function isLongTarget(line: string, urlBytes: number): boolean {
  return /^[A-Z]+ \S*$/.test(line.slice(0, urlBytes))
}

/** Whether the line is sound but for its method, which this parser does not know (RFC 9110 9.1: 501). */
function isRequestLine(line: string): boolean {
  return /^[A-Za-z!#$%&'*+.^_`|~0-9-]{1,64} \/\S{0,4096} HTTP\/1\.[01]\r\n/.test(line)
}
