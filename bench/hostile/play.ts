/** One attack on one server: both sides in processes of their own, and what was seen of it. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { childrenOf, cpuMicroseconds } from '../cpu.ts'
import { rssBytes } from '../growth/proc.ts'
import { quantile } from '../growth/statistics.ts'
import type { Launched, Processes } from '../processes.ts'
import { child } from './child.ts'
import type { AttackOrder, AttackOutcome, ClientOrder } from './orders.ts'
import type { Server } from './servers.ts'
import { clients, type Setup } from './setup.ts'

/** A line of the table. */
export interface Sight {
  readonly answers: Readonly<Record<string, number>>
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
}

export interface Battle {
  readonly server: Launched
  readonly backends: readonly Launched[]
}

export interface Play {
  readonly setup?: Omit<Setup, 'backends'>
  readonly backends?: number
  readonly backendArgs?: readonly string[]
  readonly attack?: Omit<AttackOrder, 'port' | 'ms'>
  readonly client?: Partial<ClientOrder>
  /** Of the attack; the client asks until it is over. */
  readonly ms: number
  /** Done as the attack begins. */
  readonly meanwhile?: (battle: Battle) => void
}

/** Time for the first connections, and for just-in-time compilation. */
const WARM_UP_MS = 1_000
const SAMPLE_MS = 20

export const head = (path: string, { key, method = 'GET', more = '' }: HeadOrder = {}): string =>
  `${method} ${path} HTTP/1.1\r\nHost: bench.example\r\n${key === undefined ? '' : `Authorization: Bearer ${key}\r\n`}${more}\r\n`

interface HeadOrder {
  readonly key?: string
  readonly method?: string
  /** Further lines, each with its end. */
  readonly more?: string
}

/** Calls `see` with what is running, and ends it. */
export async function begin(processes: Processes, server: Server, play: Play): Promise<Battle> {
  const backends: Launched[] = []
  for (let nth = 0; nth < (play.backends ?? 1); nth++) {
    const script = join(import.meta.dirname, 'backend.ts')
    backends.push(
      await processes.launch({
        name: `backend-${nth}`,
        command: [script, ...(play.backendArgs ?? [])],
        listener: 'backend',
        own: true,
      }),
    )
  }
  const hosts = backends.map(({ origin }) => new URL(origin).host)
  return { server: await server.start(processes, { ...play.setup, backends: hosts }), backends }
}

export async function see(battle: Battle, play: Play): Promise<Sight> {
  const { server, backends } = battle
  const port = Number(new URL(server.origin).port)
  // Who is patient to the end must not be served because the attack is over.
  const patienceMs = play.client?.patienceMs ?? 0
  const [ask, strike] = await Promise.all([child('client.ts'), child('attack.ts')])
  const asked = ask({
    port,
    head: head('/v1/pets', { key: clients.victim.key }),
    connections: 32,
    everyMs: 5,
    warmUpMs: WARM_UP_MS,
    ms: play.ms,
    ...play.client,
  })
  await sleep(WARM_UP_MS)
  const rssBefore = rssOf(server.pid)
  let rssMost = rssBefore
  const cpuBefore = cpuOf(server.pid)
  const sampler = setInterval(() => (rssMost = Math.max(rssMost, rssOf(server.pid))), SAMPLE_MS)
  play.meanwhile?.(battle)
  const struck = play.attack
    ? strike({ ...play.attack, port, ms: play.ms + patienceMs })
    : Promise.resolve({})
  try {
    const [{ answers, waitsMs }, attack] = await Promise.all([asked, struck])
    return {
      answers,
      medianMs: quantile(waitsMs, 0.5),
      p99Ms: quantile(waitsMs, 0.99),
      longestMs: waitsMs.at(-1) ?? NaN,
      rssBeforeMB: rssBefore / 1e6,
      rssMostMB: rssMost / 1e6,
      cpuSeconds: (cpuOf(server.pid) - cpuBefore) / 1e6,
      attack,
      heads: await headsAt(backends),
    }
  } finally {
    clearInterval(sampler)
  }
}

async function headsAt(backends: readonly Launched[]): Promise<number> {
  // Who is frozen or dead does not tell.
  const heads = backends.map((backend) =>
    Promise.race([backend.ask<number>('heads').catch(() => 0), sleep(500, 0)]),
  )
  return (await Promise.all(heads)).reduce((sum, one) => sum + one, 0)
}

/** NaN: it has ended. */
function cpuOf(pid: number): number {
  try {
    return cpuMicroseconds(pid)
  } catch {
    return NaN
  }
}

/** nginx has a master and a worker. */
function rssOf(pid: number): number {
  try {
    return [pid, ...childrenOf(pid)].reduce((sum, one) => sum + (rssBytes(one) || 0), 0)
  } catch {
    // It has ended, which the answers tell.
    return 0
  }
}
