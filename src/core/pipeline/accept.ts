/** First stage: makes the exchange with its id and client address, and ensures that it is recorded whatever happens to it. */
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
  // Else keep-alive clients would delay the end of the process. What a client had already sent is answered all the same.
  const { origin, hasMore } = arrival.connection
  if (origin.door.isClosed || (parts.isDraining && !hasMore)) response.shouldKeepAlive = false
  return exchange
}
