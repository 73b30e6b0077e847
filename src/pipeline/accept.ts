/** First stage: who is there, under which id, and how the exchange will be recorded whatever happens to it. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Connections } from '../listeners/connections.ts'
import type { Exchange, Tunnel } from './exchange.ts'
import { isRefusal, type Refusal } from '../rules/refusals.ts'
import type { ClientAddressOf } from '../rules/client-address.ts'
import type { Framing } from '../rules/framing.ts'
import type { RequestIdOf } from '../rules/request-id.ts'

export interface AcceptDeps {
  readonly connections: Connections<Exchange>
  readonly requestId: RequestIdOf
  /** Hands the charge of a request back that no backend has seen. */
  cancel(exchange: Exchange): void
  /** Called once per exchange, when the answer has been sent whole or its connection has gone. */
  record(exchange: Exchange): void
}

export interface Arrival {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly expectsContinue: boolean
  readonly tunnel: Tunnel | undefined
}

/** clientAddress: of the policy that the request begins under. */
export type Accept = (
  arrival: Arrival,
  framing: Framing | Refusal,
  clientAddress: ClientAddressOf,
) => Exchange

const NO_HEADERS: readonly string[] = []

export function createAccept({ connections, requestId, cancel, record }: AcceptDeps): Accept {
  return function accept(arrival, framing, clientAddress) {
    const { request, response, expectsContinue, tunnel } = arrival
    // Of a request that cannot be read safely, no forwarding header is believed.
    const sound = isRefusal(framing) ? undefined : framing
    const { address, key, peerTrusted, proxies } = clientAddress(
      request.socket.remoteAddress ?? '',
      sound?.forwardedFor,
    )
    const exchange: Exchange = {
      request,
      response,
      id: requestId(peerTrusted ? sound?.requestId : undefined),
      startedMs: performance.now(),
      clientAddress: address,
      addressKey: key,
      proxies,
      proto: (peerTrusted ? sound?.forwardedProto : undefined) ?? 'http',
      slot: undefined,
      expectsContinue,
      hasBody: sound === undefined || sound.body !== 'none',
      bodyBytes: sound === undefined || sound.body === 'chunked' ? undefined : sound.bodyBytes,
      tunnel,
      path: undefined,
      target: undefined,
      route: undefined,
      caller: undefined,
      refusedCaller: undefined,
      admission: undefined,
      quota: undefined,
      degraded: false,
      quotaHeaders: NO_HEADERS,
      backend: undefined,
      backendStartedMs: undefined,
      backendEndedMs: undefined,
      forwarding: undefined,
      responseBytes: 0,
      status: 0,
      refusal: undefined,
      cause: undefined,
      recorded: false,
    }
    connections.began(exchange)
    response.once('close', () => {
      if (!response.writableFinished && exchange.status !== 101) {
        // The client left: nobody waits for the backend's answer any more.
        if (exchange.forwarding?.abort() === false) cancel(exchange)
        exchange.cause ??= 'the client left before the answer was complete'
        if (exchange.status === 0) exchange.status = 499
      }
      connections.ended(exchange)
      record(exchange)
    })
    return exchange
  }
}
