/** One attack on one server: both sides in processes of their own, and what was seen of it. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { BackendReport } from '../backend.ts'
import { portOf } from '../load-order.ts'
import { childrenOf, cpuMicroseconds, rssBytes } from '../proc.ts'
import type { Launched, Processes } from '../processes.ts'
import { median, quantile, sum } from '../statistics.ts'
import { startBackend } from '../subjects.ts'
import { requestHead } from '../wire.ts'
import { clients } from './clients.ts'
import { startIssuer, type Issuer } from './issuer.ts'
import type { AttackOrder, AttackOutcome, ClientOrder, ClientOutcome } from './orders.ts'
import type { Server, Setup } from './servers.ts'

export interface Play {
  /** Of the attack; the client asks until it is over. */
  readonly ms: number
  readonly setup?: Partial<Omit<Setup, 'backends' | 'issuer'>>
  readonly backends?: number
  readonly backendArgs?: readonly string[]
  readonly attack?: Omit<AttackOrder, 'port' | 'ms'>
  readonly client?: Partial<ClientOrder>
  /** It has the signal sent to the second backend as it begins, and is measured against so many ms before. */
  readonly failure?: { readonly signal: NodeJS.Signals; readonly beforeMs: number }
  /** It begins early in a minute of the clock, as what it counts is by the minute. */
  readonly isEarlyInMinute?: boolean
  /** The client has a fresh token for each request. */
  readonly hasTokens?: boolean
}

/** What was seen of a play. */
export interface Sight {
  readonly answers: Readonly<Record<string, number>>
  /** The part of the client's requests that was answered well. */
  readonly served: number
  readonly medianMs: number
  readonly p99Ms: number
  readonly longestMs: number
  readonly rssBeforeMB: number
  readonly rssMostMB: number
  /** CPU of the server while the attack lasted and its work was done, in seconds. */
  readonly cpuSeconds: number
  readonly attack: AttackOutcome
  /** Requests whose head a backend has seen; of all backends together. */
  readonly heads: number
  /** Answers a second by those before the failure; NaN without one. */
  readonly rate: number
}

/** Time for the first connections, and for just-in-time compilation. */
const WARM_UP_MS = 1_000
const SAMPLE_MS = 20
const usual = { responseMs: 30_000, requestMs: 60_000, bodyBytes: 1_048_576 }

export async function playOn(processes: Processes, server: Server, play: Play): Promise<Sight> {
  const backends: Launched[] = []
  for (let nth = 0; nth < (play.backends ?? 1); nth++) {
    const args = play.backendArgs ?? []
    backends.push(await startBackend(processes, { name: `backend-${nth}`, args }))
  }
  const issuer = play.hasTokens ? await startIssuer() : undefined
  try {
    const hosts = backends.map(({ origin }) => new URL(origin).host)
    const setup = { ...usual, ...play.setup, issuer, backends: hosts }
    const running = await server.start(processes, setup)
    const battle = { processes, running, backends, issuer }
    while (play.isEarlyInMinute && new Date().getUTCSeconds() > 45) await sleep(500)
    if (play.failure === undefined) return await see(battle, play)
    const { beforeMs, signal } = play.failure
    const before = await see(battle, { ...play, ms: beforeMs })
    const fail = (): void => void process.kill(backends[1]?.pid ?? NaN, signal)
    const after = await see(battle, play, fail)
    const perSecond = ({ answers }: Sight, ms: number): number => (answers['200'] ?? 0) / ms
    return { ...after, rate: perSecond(after, play.ms) / perSecond(before, beforeMs) }
  } finally {
    issuer?.close()
  }
}

interface Battle {
  readonly processes: Processes
  readonly running: Launched
  readonly backends: readonly Launched[]
  readonly issuer: Issuer | undefined
}

/** onBegin is called as the attack begins. */
async function see(battle: Battle, play: Play, onBegin?: () => void): Promise<Sight> {
  const { processes, running, backends, issuer } = battle
  const port = portOf(running.origin)
  // Who is patient to the end must not be served because the attack is over.
  const patienceMs = play.client?.patienceMs ?? 0
  const [client, attacker] = await Promise.all([
    processes.worker<ClientOrder, ClientOutcome>('hostile/client.ts'),
    processes.worker<AttackOrder, AttackOutcome>('hostile/attack.ts'),
  ])
  const asked = client.ask({
    port,
    head: requestHead('/v1/pets', { key: clients.victim.key }),
    connections: 32,
    everyMs: 5,
    warmUpMs: WARM_UP_MS,
    ms: play.ms,
    ...(issuer && { heads: tokenHeads(issuer, play) }),
    ...play.client,
  })
  await sleep(WARM_UP_MS)
  onBegin?.()
  const rssBefore = rssOf(running.pid)
  let rssMost = rssBefore
  const cpuBefore = cpuOf(running.pid)
  const sampler = setInterval(() => (rssMost = Math.max(rssMost, rssOf(running.pid))), SAMPLE_MS)
  const struck: AttackOutcome | Promise<AttackOutcome> = play.attack
    ? attacker.ask({ ...play.attack, port, ms: play.ms + patienceMs })
    : {}
  try {
    const [{ answers, waitsMs }, attack] = await Promise.all([asked, struck])
    return {
      answers,
      served: partOf(answers, '200') + partOf(answers, '204'),
      medianMs: median(waitsMs),
      p99Ms: quantile(waitsMs, 0.99),
      longestMs: quantile(waitsMs, 1),
      rssBeforeMB: rssBefore / 1e6,
      rssMostMB: rssMost / 1e6,
      cpuSeconds: (cpuOf(running.pid) - cpuBefore) / 1e6,
      attack,
      heads: await headsAt(backends),
      rate: NaN,
    }
  } finally {
    clearInterval(sampler)
    await Promise.all([client.end(), attacker.end()])
  }
}

export const partOf = (answers: Sight['answers'], status: string): number =>
  (answers[status] ?? 0) / Math.max(sum(Object.values(answers)), 1)

/** Heads of all requests that the client may send, each with a token that nobody has seen before. */
function tokenHeads({ token }: Issuer, { ms, client }: Play): string[] {
  const count = Math.ceil((ms + WARM_UP_MS) / (client?.everyMs ?? 5)) + 1
  return Array.from({ length: count }, () => requestHead('/v1/pets', { key: token() }))
}

async function headsAt(backends: readonly Launched[]): Promise<number> {
  // Who is frozen or dead does not tell.
  const heads = backends.map(async (backend) => {
    const report = backend.ask<BackendReport>('report').then(({ requests }) => requests)
    return Promise.race([report.catch(() => 0), sleep(500, 0)])
  })
  return sum(await Promise.all(heads))
}

/** NaN: it has ended, which the answers show. */
function ifAlive(read: () => number): number {
  try {
    return read()
  } catch {
    return NaN
  }
}

const cpuOf = (pid: number): number => ifAlive(() => cpuMicroseconds(pid))

/** nginx has a master and a worker. */
const rssOf = (pid: number): number =>
  ifAlive(() => sum([pid, ...childrenOf(pid)].map(rssBytes))) || 0
