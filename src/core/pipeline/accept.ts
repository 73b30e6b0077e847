/** First stage: makes the exchange with its id and client address, and ensures that it is recorded whatever happens to it. */
import { makeLast } from '../http/node-internals.ts'
import type { Framing } from '../rules/framing.ts'
import type { Refusal } from '../rules/refusals.ts'
import { Exchange, type Arrival, type PipelineParts } from './exchange.ts'
import type { Stages } from './pipeline.ts'
import { record } from './record.ts'
import { giveUp } from './take-quota.ts'

export function accept(
  parts: PipelineParts,
  arrival: Arrival,
  framing: Framing | Refusal,
  stages: Pick<Stages, 'clientAddress' | 'terms'>,
): Exchange {
  const exchange = new Exchange(parts.requestId, arrival, framing, stages)
  const { response } = exchange
  parts.connections.began(exchange)
  response.once('close', () => {
    if (!response.writableFinished && exchange.status !== 101) {
      // The client has left, so nobody waits for the backend's answer.
      giveUp(parts, exchange)
      exchange.cause ??= 'the client left before the answer was complete'
      if (exchange.status === 0) exchange.status = 499
    }
    exchange.turn?.giveBack()
    parts.connections.ended(exchange)
    record(parts, exchange)
  })
  parts.metrics.requestStarted()
  // Else keep-alive clients would delay the end of the process.
  const isEnding = parts.isDraining || arrival.connection.origin.door.isClosed
  if (isEnding || isHttp10Close(arrival.request)) makeLast(response)
  return exchange
}

/** Whether Connection contains close (RFC 9112 9.3) in HTTP/1.0, where node:http ignores it. */
const isHttp10Close = ({ httpVersion, headers }: Arrival['request']): boolean =>
  httpVersion === '1.0' && /\bclose\b/i.test(headers.connection ?? '')
