/** What the rest of the gateway knows of its workers, whether they are this process itself or processes of their own. */
import type { WorkerState } from '../../admin/operation.ts'
import type { Config, ListenAddress } from '../../config/config.ts'
import { worstOf, type BackendHealth } from '../../core/backends/backend.ts'
import type { BanTable } from '../../core/bans/ban-table.ts'
import type { KeySetFault } from '../../core/credentials/key-source.ts'
import type { MetricsSnapshot } from '../../core/record/metric-registry.ts'
import type { Decision, RequestQuery } from '../../core/record/recent.ts'
import type { Shed } from '../../core/rules/overload.ts'
import type { CallerIds, CallerStanding } from '../../insight/explain/question.ts'
import { newestOf } from '../../insight/live/sums.ts'
import { embeddedHealth, type OwnState, type StoreHealth } from '../../state/contract.ts'
import type { IpcCalls } from '../../state/calls.ts'
import type { ReadToken } from './read-token.ts'
import type { Prepared } from './reloader.ts'

export interface WorkerCalls {
  recent(query: RequestQuery): readonly Decision[]
  readToken(token: string): ReadToken
  standing(caller: CallerIds): CallerStanding
}

/** What a worker says of itself without being asked. */
export interface WorkerFacts {
  /** Redis as this worker sees it. */
  readonly store: StoreHealth
  /** Why it could not fetch the key set of the token issuer. */
  readonly keySetFault: KeySetFault | undefined
  /** Why it can write no log lines at the moment. */
  readonly logFault: string | undefined
  /** What it refuses because it has too much to do. */
  readonly shed: Shed
  readonly backends: readonly BackendHealth[]
}

export interface WorkerLink extends WorkerState {
  /** undefined: it has reported nothing yet. */
  readonly facts: WorkerFacts | undefined
  /** Calls reject where the worker does not answer in time. */
  readonly questions: Pick<IpcCalls<WorkerCalls>, 'call'>
}

export interface Workers {
  /** All of them take another configuration, or none; rejects as the Reloader wants it. */
  prepare(config: Config): Promise<Prepared>
  readonly stores: OwnState
  readonly operatorBans: BanTable
  /** All that have not ended. */
  readonly links: readonly WorkerLink[]
  /** Workers started in place of one that crashed. */
  readonly restarts: number
  /** The metrics of the whole gateway: values of all its processes, with the counters of workers that have ended. */
  measure(): Promise<readonly MetricsSnapshot[]>
  /** Never rejects. */
  probeBackends(): Promise<readonly BackendHealth[]>
  /** Resolves when what workers need is there, or their time is up; rejects when a store refuses this gateway. */
  ready(): Promise<void>
  /** Resolves when all take requests; rejects with the error of the system if the address cannot be had. */
  listen(): Promise<ListenAddress>
  /** Ends what is in flight within server.timeouts.drain. idleMs: see FrontDoor. */
  drain(times: { readonly idleMs: number }): Promise<void>
  /** Closes what is left, and the stores. */
  close(): Promise<void>
  /** Replaces one worker after the other, losing no request, up to the first that cannot be replaced. Never rejects. undefined: this process is the only worker. */
  readonly roll?: () => Promise<void>
  /** Ends the workers in this very call, for a process that is about to end itself. */
  readonly abandon?: () => void
}

type Links = readonly WorkerLink[]

/** Workers that take requests, or have taken some. */
const askable = (links: Links): Links => links.filter(({ sinceMs }) => sinceMs !== undefined)

/** missing: the workers that have not answered in time. Never rejects. */
async function askAll<Answer>(links: Links, ask: (link: WorkerLink) => Promise<Answer>) {
  const missing: string[] = []
  const asked = askable(links).map((link) =>
    ask(link).catch(() => void missing.push(`worker ${link.number} does not answer`)),
  )
  const answers = await Promise.all(asked)
  return { answers: answers.filter((one) => one !== undefined), missing }
}

export const standingsIn = (links: Links, caller: CallerIds) =>
  askAll(links, async ({ number, questions }): Promise<CallerStanding> => ({
    ...(await questions.call('standing', caller)),
    ...(links.length > 1 && { worker: number }),
  }))

/** Asks any one worker. Rejects where none answers. */
export async function readTokenIn(links: Links, token: string): Promise<ReadToken> {
  const [first] = askable(links)
  const worker = links.find(({ state }) => state === 'listening') ?? first
  if (worker === undefined) throw new Error('no worker takes requests')
  return worker.questions.call('readToken', token)
}

/** The latest decisions of all workers that match, newest first. */
export async function recentIn(links: Links, query: RequestQuery) {
  const { answers, missing } = await askAll(links, ({ questions }) =>
    questions.call('recent', query),
  )
  return { requests: newestOf(answers), missing }
}

/** Sums up the facts of the listening workers, or of the ending ones where none listens: a starting worker has seen nothing yet. */
export function seenBy(links: Links) {
  const listening = links.filter(({ state }) => state === 'listening')
  const seen = (listening.length > 0 ? listening : askable(links)).flatMap(
    ({ facts }) => facts ?? [],
  )
  const stores = seen.map(({ store }) => store)
  const faults = seen.flatMap(({ keySetFault }) => keySetFault ?? [])
  const backendsOfEach = seen.map(({ backends }) => backends)
  return {
    /** The store as the worker sees it that has most trouble with it. */
    store:
      stores.find(({ refusal }) => refusal !== undefined) ??
      stores.find(({ available }) => !available) ??
      stores.find(({ warning }) => warning !== undefined) ??
      embeddedHealth,
    /** The fault of a worker without any key set comes before others. */
    keySetFault: faults.find(({ hasKeys }) => !hasKeys) ?? faults[0],
    logFault: seen.find(({ logFault }) => logFault !== undefined)?.logFault,
    sheds: seen.map(({ shed }) => shed),
    backendsOfEach,
    /** Each backend as the worker sees it to which it looks worst. */
    backends: worstOf(backendsOfEach),
  }
}
