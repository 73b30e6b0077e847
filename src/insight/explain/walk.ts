/** Runs a hypothetical request through the real stages, and keeps what each of them answers. */
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { Config } from '../../config/config.ts'
import type { StageName } from '../api/explain.ts'
import { ClientConnection } from '../../core/http/connections.ts'
import { Exchange, type Policy } from '../../core/pipeline/exchange.ts'
import { matchRoute } from '../../core/pipeline/match-route.ts'
import { walk } from '../../core/pipeline/pipeline.ts'
import { giveUp, STORE_LOST } from '../../core/pipeline/take-quota.ts'
import { checkFraming } from '../../core/rules/framing.ts'
import { isRefusal, type Refusal, type RefusalCode } from '../../core/rules/refusals.ts'
import { createRequestId } from '../../core/rules/request-id.ts'
import { readOffer } from '../../core/rules/websocket.ts'
import { finders, refusalsOf } from './findings.ts'
import type { Question } from './question.ts'

export interface Walked {
  readonly exchange: Exchange
  /** Refusal by each stage that was reached; undefined: it let the request pass. */
  readonly verdicts: ReadonlyMap<StageName, Refusal | undefined>
  /** Refusal that answers the request; undefined: it is sent to a backend, or answered by exchange.status. */
  readonly refusal: Refusal | undefined
  readonly decidedBy: StageName
}

/** Stands for the secret of the named key; no key has this text. */
export const STAND_IN = 'stands-for-the-key-that-was-named'

const NO_SOCKET = new Socket()
const UNSENT = { begin: () => true, send: () => {}, takenBytes: 0 }
const NO_CONNECTIONS = { prove: () => undefined }
const ID = createRequestId(0, new Uint8Array(8))

/** policy: its state belongs to this question alone. */
export async function walkThrough(
  policy: Policy,
  question: Question,
  { server }: Config,
): Promise<Walked> {
  const request = requestOf(question)
  const framing = checkFraming(request, server.limits)
  const proto = server.tls === undefined ? 'http' : 'https'
  const origin = { address: '127.0.0.1', isNamed: true, proto } as const
  const arrival = {
    connection: new ClientConnection(NO_SOCKET, origin, undefined),
    request,
    response: Object.assign(new ServerResponse(new IncomingMessage(NO_SOCKET)), UNSENT),
  }
  const exchange = new Exchange(ID, arrival, framing, policy)
  const end = await walk(policy, NO_CONNECTIONS, exchange, framing)
  const isAdmitted = end !== undefined && !isRefusal(end)
  const isUpgrade = isAdmitted && exchange.framing.websocket && exchange.route?.websocket
  const refusal = [end, isUpgrade && readOffer(request.rawHeaders)].find(isRefusal)
  if (refusal !== undefined) giveUp(policy, exchange)
  const { caller, path } = exchange
  const answering = isAdmitted ? 'forward' : path === undefined ? 'accept' : 'match-route'
  const decidedBy =
    refusal === undefined
      ? answering
      : refusingStage(refusal.code, refusal.cause, caller !== undefined)
  const last = lastStage(decidedBy, caller !== undefined)
  const verdicts = new Map<StageName, Refusal | undefined>()
  for (const stage of stageNames.slice(0, stageNames.indexOf(last) + 1))
    verdicts.set(stage, stage === decidedBy ? refusal : undefined)
  // It waits for the credential, so that another stage may refuse first.
  if (path !== undefined) verdicts.set('match-route', matchRoute(policy, exchange, path))
  return { exchange, verdicts, refusal, decidedBy }
}

export const stageNames = Object.keys(finders) as readonly StageName[]

/** The last stage that a request meets: a refusal by match-route is given to authenticated callers that are not banned. */
export const lastStage = (decidedBy: StageName, isAuthenticated: boolean): StageName =>
  decidedBy === 'match-route' && isAuthenticated ? 'shed-load' : decidedBy

export function refusingStage(
  code: RefusalCode,
  cause: string | undefined,
  isAuthenticated: boolean,
): StageName {
  if (cause === STORE_LOST.cause) return 'take-quota'
  const stage = stageNames.find((name) => refusalsOf[name]?.includes(code)) ?? 'accept'
  // An authenticated request has passed `accept`, so what is malformed is its WebSocket handshake.
  if (isAuthenticated) return stage === 'accept' ? 'forward' : stage
  if (stage === 'match-route') return stage
  return stage === 'receive-body' || stage === 'accept' ? 'accept' : 'authenticate'
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
