/** First stage: who is there, under which id, and how the exchange will be recorded whatever happens to it. */
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
      // The client left: nobody waits for the backend's answer any more.
      giveUp(parts, exchange)
      exchange.cause ??= 'the client left before the answer was complete'
      if (exchange.status === 0) exchange.status = 499
    }
    exchange.turn?.giveBack()
    parts.connections.ended(exchange)
    record(parts, exchange)
  })
  parts.metrics.requestStarted()
  // Keep-alive clients would hold the process up for as long as they have something to say.
  const isEnding = parts.isDraining || arrival.connection.origin.door.isClosed
  if (isEnding || isClosedInVain(arrival.request)) makeLast(response)
  return exchange
}

/** RFC 9112 9.3: close counts, whatever else Connection says; http heeds that for HTTP/1.1 alone. */
const isClosedInVain = ({ httpVersion, headers }: Arrival['request']): boolean =>
  httpVersion === '1.0' && /\bclose\b/i.test(headers.connection ?? '')
