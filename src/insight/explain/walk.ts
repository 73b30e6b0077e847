/** Runs a hypothetical request through the real stages, and keeps what each of them answers. */
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { StageName } from '../api/explain.ts'
import { ClientConnection } from '../../core/http/connections.ts'
import { Exchange } from '../../core/pipeline/exchange.ts'
import { walk, type Stages } from '../../core/pipeline/pipeline.ts'
import { giveUp } from '../../core/pipeline/take-quota.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import type { Framing } from '../../core/rules/framing.ts'
import { isRefusal, type Refusal } from '../../core/rules/refusals.ts'
import { createRequestId } from '../../core/rules/request-id.ts'
import { whenKnown } from '../../core/rules/when-known.ts'
import { readOffer } from '../../core/rules/websocket.ts'
import type { Question } from './question.ts'

/** All stages but the one that needs backends. */
export type DecidingStages = Omit<Stages, 'forward'>

export interface Walked {
  readonly exchange: Exchange
  /** Refusal by each stage that was reached; undefined: it let the request pass. */
  readonly verdicts: ReadonlyMap<StageName, Refusal | undefined>
  /** Refusal that answers the request; undefined: it is sent to a backend, or answered by exchange.status. */
  readonly refusal: Refusal | undefined
  readonly isSent: boolean
}

/** Stands for the secret of the named key; no key has this text. */
export const STAND_IN = 'stands-for-the-key-that-was-named'

const NO_SOCKET = new Socket()
const UNSENT = { begin: () => true, send: () => {}, takenBytes: 0 }
const ID = createRequestId(0, new Uint8Array(8))

export interface WalkOptions {
  /** Scheme of the listener. */
  readonly proto: 'http' | 'https'
  /** Called first, with the address key under which unauthenticated requests count. */
  onAddress(addressKey: string): void
  /** Called once the caller is authenticated, before anything is decided about them. */
  onCaller(caller: Caller): void | Promise<void>
}

export async function walkThrough(
  stages: DecidingStages,
  question: Question,
  { proto, onAddress, onCaller }: WalkOptions,
): Promise<Walked> {
  const request = requestOf(question)
  const framing = stages.checkFraming(request)
  const address = question.address ?? '127.0.0.1'
  const origin = { address, isNamed: true, proto, door: { isClosed: false } }
  const arrival = {
    connection: new ClientConnection(NO_SOCKET, origin, undefined),
    request,
    response: Object.assign(new ServerResponse(new IncomingMessage(NO_SOCKET)), UNSENT),
  }
  const exchange = new Exchange(ID, arrival, framing, stages)
  onAddress(exchange.addressKey)
  const verdicts = new Map<StageName, Refusal | undefined>()
  let isSent = false
  let refusedLast: Refusal | undefined
  const forward: Stages['forward'] = () => {
    const offer = isUpgrade(exchange, framing) ? readOffer(request.rawHeaders) : undefined
    refusedLast = isRefusal(offer) ? offer : undefined
    isSent = refusedLast === undefined
    verdicts.set('forward', refusedLast)
  }
  const watched = watch(stages, verdicts, onCaller)
  const end = await walk({ ...watched, forward }, { prove: () => undefined }, exchange, framing)
  const refusal = end ?? refusedLast
  if (refusal !== undefined) giveUp(stages, exchange)
  if (!verdicts.has('accept')) verdicts.set('accept', verdicts.size === 0 ? refusal : undefined)
  return { exchange, verdicts, refusal, isSent }
}

const isUpgrade = ({ route }: Exchange, framing: Framing | Refusal): boolean =>
  !isRefusal(framing) && framing.websocket && route?.websocket === true

function watch(
  stages: DecidingStages,
  verdicts: Map<StageName, Refusal | undefined>,
  onCaller: WalkOptions['onCaller'],
): DecidingStages {
  const noted =
    <Args extends unknown[], Answer>(stage: StageName, decide: (...args: Args) => Answer) =>
    (...args: Args): Answer => {
      const answer = decide(...args)
      void whenKnown(answer, (known) => {
        verdicts.set(stage, isRefusal(known) ? known : undefined)
      })
      return answer
    }
  const { authenticate } = stages
  return {
    ...stages,
    checkTarget: noted('accept', stages.checkTarget),
    matchRoute: noted('match-route', stages.matchRoute),
    authenticate: noted('authenticate', async (exchange: Exchange, framing: Framing) => {
      const caller = await authenticate(exchange, framing)
      if (!isRefusal(caller)) await onCaller(caller)
      return caller
    }),
    checkBan: noted('check-ban', stages.checkBan),
    shedLoad: noted('shed-load', stages.shedLoad),
    checkDeprecation: noted('check-deprecation', stages.checkDeprecation),
    takeQuota: noted('take-quota', stages.takeQuota),
    takeTurn: noted('take-turn', stages.takeTurn),
    receiveBody: noted('receive-body', stages.receiveBody),
  }
}

/** The body has arrived and is empty, whatever length is declared: no stage decides by its content. */
function requestOf({ method, target, headers, keyId }: Question) {
  const rawHeaders = [...headers]
  const names = new Set(headers.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase()))
  if (!names.has('host')) rawHeaders.push('Host', 'gateway')
  if (keyId !== undefined) rawHeaders.push('Authorization', `Bearer ${STAND_IN}`)
  return {
    method,
    url: target,
    httpVersion: '1.1',
    rawHeaders,
    complete: true,
    body: undefined,
    receivedBytes: 0,
  }
}
