/** The clients that call at a pace, and what each call came to. */
import { Agent, request as httpRequest } from 'node:http'
import type { Chance } from '../simulation/virtual-time.ts'
import { eventually, type GatewayProcess } from '../process/gateways.ts'
import { answered } from './answers.ts'
import { bodyOf, targetOf, type Sizes } from './bodies.ts'
import type { ChaosClient, ChaosRequest, Outcome } from './events.ts'
import { talk } from './tunnels.ts'
import { keyOf, type Place } from './world.ts'

export interface Caller extends ChaosClient {
  /** 0: only when there is a crowd of it. */
  readonly perSecond: number
  /** Waits as long as a 429 says. */
  readonly obeys: boolean
  /** Opens WebSockets instead. */
  readonly talks?: boolean
}

/** How a call goes that takes its time. */
export interface Slowness {
  /** The body goes out in 16 pieces, with this between them. */
  readonly sendEveryMs?: number
  /** Between two pieces of the answer. */
  readonly readEveryMs?: number
  /** Aborted: the client leaves. */
  readonly leaving: AbortSignal
}

export type Callers = ReturnType<typeof createCallers>

/** Longer than anything the gateway has a limit for: who hears nothing for so long never will. */
const PATIENCE_MS = 25_000
const PIECES = 16

export function createCallers(
  { places, clients }: { places: readonly Place[]; clients: readonly ChaosClient[] },
  chance: Chance,
) {
  const careful = new Set(clients.filter((client) => client.meetsNoKill).map(({ id }) => id))
  const reachable = (client: string): Running[] =>
    places.filter(isUp).filter((place) => place.isNeverKilled || !careful.has(client))
  const requests: ChaosRequest[] = []
  const agents = new Map<GatewayProcess, Agent>()
  const agentOf = (gateway: GatewayProcess): Agent => {
    const agent = agents.get(gateway) ?? new Agent({ keepAlive: true })
    agents.set(gateway, agent)
    return agent
  }

  const begin = (client: string, more: Pick<ChaosRequest, 'method' | 'manner'>): Begun => {
    const { name, gateway } = chance.pick(reachable(client))
    const sent: ChaosRequest = {
      number: requests.length,
      client,
      ...more,
      gateway: name,
      sentMs: Date.now(),
      endMs: undefined,
      outcomes: [],
    }
    requests.push(sent)
    return { sent, gateway }
  }
  const call = (client: string, sizes: Sizes, slowness?: Slowness): Promise<ChaosRequest> => {
    const method = sizes.sends === 0 ? 'GET' : 'POST'
    const begun = begin(client, { method, manner: slowness === undefined ? 'plain' : 'slow' })
    const agent = slowness === undefined && agentOf(begun.gateway)
    return send(begun, { sizes, agent, slowness })
  }
  const openTunnel = async (client: string): Promise<ChaosRequest> => {
    const { sent, gateway } = begin(client, { method: 'GET', manner: 'tunnel' })
    settle(sent, await talk(gateway.origin + targetOf(sent.number, { sends: 0, gets: 0 }), sent))
    return sent
  }

  const startOne = ({ id, perSecond, obeys, talks }: Caller): (() => void) => {
    let waitsUntilMs = 0
    return atPace(perSecond, () => {
      if (Date.now() < waitsUntilMs || reachable(id).length === 0) return
      const sizes = { sends: chance.perMille(350) ? sizeOf(chance) : 0, gets: sizeOf(chance) }
      void (talks === true ? openTunnel(id) : call(id, sizes)).then(({ outcomes: [outcome] }) => {
        if (obeys && outcome?.kind === 'answered' && outcome.status === 429)
          waitsUntilMs = Date.now() + Number(outcome.retryAfterSeconds) * 1_000
      })
    })
  }

  return {
    requests,
    call,
    /** From now on these send at their pace. The result stops them. */
    start: (callers: readonly Caller[]) => {
      const stops = callers.map(startOne)
      return () => stops.forEach((stop) => stop())
    },
    /** Until all have an outcome, or nobody would wait longer. */
    settled: async () => {
      const areSettled = (): boolean => requests.every(({ outcomes }) => outcomes.length > 0)
      await eventually('all answered', areSettled, PATIENCE_MS).catch(() => undefined)
    },
    close: () => {
      for (const agent of agents.values()) agent.destroy()
    },
  }
}

/** Sends so many times a second until stopped, whatever the answers do. The result stops it. */
function atPace(perSecond: number, send: () => void): () => void {
  const startedMs = performance.now()
  let sent = 0
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - startedMs) / 1000) * perSecond)
    for (; sent < due; sent++) send()
  }, 5)
  return () => clearInterval(timer)
}

type Running = Place & { readonly gateway: GatewayProcess }
const isUp = (place: Place): place is Running => place.gateway !== undefined

/** Most are small, some more than one piece, few more than is buffered before a backend is chosen. */
const sizeOf = (chance: Chance): number =>
  Math.round(chance.perMille(50) ? chance.between(70_000, 200_000) : chance.between(30, 3_000))

interface Begun {
  readonly sent: ChaosRequest
  readonly gateway: GatewayProcess
}

function settle(sent: ChaosRequest, outcome: Outcome): void {
  sent.endMs ??= Date.now()
  sent.outcomes.push(outcome)
}

interface Sending {
  readonly sizes: Sizes
  readonly agent: Agent | false
  readonly slowness: Slowness | undefined
}

/** Resolves with its first outcome; any further one is written down too. */
function send(
  { sent, gateway }: Begun,
  { sizes, agent, slowness }: Sending,
): Promise<ChaosRequest> {
  const body = sizes.sends === 0 ? '' : bodyOf(sent.number, sizes.sends)
  return new Promise((resolve) => {
    let status: number | undefined
    const end = (outcome: Outcome): void => {
      settle(sent, outcome)
      resolve(sent)
    }
    const cut = (error: Error): void => {
      if (sent.outcomes.length > 0) return
      const hasLeft = slowness?.leaving.aborted === true
      end(hasLeft ? { kind: 'left' } : { kind: 'cut', status, cause: error.message })
    }
    const outgoing = httpRequest(gateway.origin + targetOf(sent.number, sizes), {
      method: sent.method,
      agent,
      headers: {
        authorization: `Bearer ${keyOf(sent.client)}`,
        // Half of the bodies come in chunks.
        ...(body !== '' && sent.number % 2 === 0 && { 'content-length': body.length }),
      },
    })
    outgoing.on('error', cut)
    outgoing.on('response', (response) => {
      status = response.statusCode
      let text = ''
      response.setEncoding('latin1').on('data', (chunk: string) => (text += chunk))
      response.on('error', cut)
      response.on('end', () =>
        end(answered(response, { isOwn: text === bodyOf(sent.number, sizes.gets), body: text })),
      )
      const { readEveryMs } = slowness ?? {}
      if (readEveryMs === undefined) return
      response.on('data', () => {
        response.pause()
        setTimeout(() => response.resume(), readEveryMs)
      })
    })
    slowness?.leaving.addEventListener('abort', () => outgoing.destroy(new Error('left')))
    if (slowness?.sendEveryMs === undefined) outgoing.end(body)
    else sendSlowly(body, slowness.sendEveryMs, outgoing)
  })
}

function sendSlowly(body: string, everyMs: number, outgoing: ReturnType<typeof httpRequest>): void {
  const pieceBytes = Math.ceil(body.length / PIECES)
  let from = 0
  const timer = setInterval(() => {
    if (outgoing.destroyed) return clearInterval(timer)
    outgoing.write(body.slice(from, from + pieceBytes))
    from += pieceBytes
    if (from < body.length) return
    clearInterval(timer)
    outgoing.end()
  }, everyMs)
}
