/** The composition root of a worker: serves requests on a socket of its supervisor, and asks it for what they share. */
import { createAddressCounter } from '../counters/anonymous-limiter.ts'
import { createIpcBanStore, type BanCalls, type IpcBanStore } from '../bans/ban-store-ipc.ts'
import { createIpcCalls, type CallBatch, type IpcCalls } from '../ipc/calls.ts'
import { createCounter } from '../counters/counter.ts'
import { createLog, type Log } from '../observability/log.ts'
import { createMetrics, type Metrics } from '../observability/metrics.ts'
import {
  createSharedAddressCounter,
  createSharedStrikes,
  type CounterCalls,
} from '../counters/shared-counters.ts'
import type { Config } from '../config/config.ts'
import { createIpcAuthority, type QuotaCalls } from '../quota/authorities/ipc.ts'
import type { ReclaimListener } from '../quota/protocol.ts'
import { configNames, createServing, type Serving } from '../gateway/serving.ts'
import { connectStore, createOutageReport, redisStores, type Stores } from '../gateway/stores.ts'
import {
  LISTEN_FD,
  type Lane,
  type Reclaim,
  type StartMessage,
  type ToSupervisor,
  type ToWorker,
} from './messages.ts'

/** The IPC channel as the process's edge gives it. */
export interface SupervisorChannel {
  /** Resolves when the message was handed over or cannot be. */
  send(message: ToSupervisor): Promise<void>
  onMessage(listener: (message: ToWorker) => void): void
  onGone(listener: () => void): void
}

export interface Worker {
  /** Resolves with the exit code when nothing is left to do. */
  readonly finished: Promise<number>
  crash(error: unknown): void
}

interface Parts {
  readonly log: Log
  readonly metrics: Metrics
  readonly serving: Serving
  hear(message: ToWorker): void
  /** The supervisor is gone. */
  orphan(): void
}

/** Without its supervisor a worker is one that nobody can stop, nor ask for quota: it ends soon. */
const ORPHAN_DRAIN_MS = 5_000

export function createWorker(channel: SupervisorChannel): Worker {
  const finished = Promise.withResolvers<number>()
  let parts: Parts | undefined
  let isDraining = false

  const begin = async (start: StartMessage): Promise<void> => {
    try {
      parts = createParts(start, channel)
      await parts.serving.ready()
    } catch (error) {
      return fail(error, false)
    }
    if (isDraining) return
    try {
      const address = await parts.serving.listen(LISTEN_FD)
      await channel.send({ kind: 'listening', address })
    } catch (error) {
      await fail(error, true)
    }
  }
  const fail = async (error: unknown, isListener: boolean): Promise<void> => {
    const { message, code } = error as NodeJS.ErrnoException
    await channel.send({ kind: 'failed', fault: { message, code, isListener } })
    finished.resolve(1)
  }
  const drain = async (times: { idleMs: number; atMostMs?: number }): Promise<void> => {
    if (isDraining) return
    isDraining = true
    if (parts === undefined) return finished.resolve(0)
    const { serving, metrics, log } = parts
    await serving.drain(times)
    await channel.send({ kind: 'measured', id: undefined, snapshot: await metrics.snapshot() })
    await serving.close()
    await log.close()
    finished.resolve(0)
  }

  channel.onMessage((message) => {
    if (message.kind === 'start') void begin(message)
    else if (message.kind === 'drain') void drain(message)
    else if (message.kind === 'beat') void channel.send({ kind: 'alive' })
    else parts?.hear(message)
  })
  channel.onGone(() => {
    parts?.orphan()
    void drain({ idleMs: 0, atMostMs: ORPHAN_DRAIN_MS })
    // A drain that had begun before, and hoped for an answer of the supervisor, ends too.
    setTimeout(() => finished.resolve(1), 2 * ORPHAN_DRAIN_MS).unref()
  })
  return { finished: finished.promise, crash: (error) => parts?.log.crash(error) }
}

function createParts(start: StartMessage, channel: SupervisorChannel): Parts {
  const { config, number, version, takenAtMs } = start
  const log = createLog({ ...config.log, worker: number })
  const metrics = createMetrics({ version, takenAtMs, isWorker: true, ...configNames(config) })
  const lanes = openLanes({ config, log, metrics, channel })
  const { calls, banCalls } = lanes
  const { stores, ...notices } = openWorkerStores({ config, log, metrics, channel, ...lanes })
  const serving = createServing({
    config,
    log,
    metrics,
    stores,
    onKeySet: (fault) => void channel.send({ kind: 'keySet', fault }),
    ...sharedCounters(config, stores, calls),
  })
  return {
    log,
    metrics,
    serving,
    orphan: () => {
      calls.close()
      banCalls.close()
    },
    hear: (message) => {
      if (message.kind === 'answers') {
        calls.receive(message)
        banCalls.receive(message)
      } else if (message.kind === 'reclaim') message.reclaims.forEach(notices.reclaimed)
      else if (message.kind === 'banned') notices.bans?.banned(message.keyId, message.ban)
      else if (message.kind === 'missed') notices.bans?.stale()
      else if (message.kind === 'measure') {
        metrics.bannedKeys(serving.bannedKeys)
        const { id } = message
        void metrics
          .snapshot()
          .then((snapshot) => channel.send({ kind: 'measured', id, snapshot }))
          .catch((error: unknown) => log.adminFailed(error))
      }
    },
  }
}

type LaneParts = Omit<StoreParts, 'calls' | 'banCalls'>

/** Two ways to ask the supervisor: bans wait for its disk, and quota must not wait with them. */
function openLanes({ channel, ...parts }: LaneParts) {
  const { redis, timeoutMs } = parts.config.store
  const report = redis === undefined ? createOutageReport(parts) : undefined
  const send = (batch: CallBatch): void => void channel.send(batch)
  const calls = createIpcCalls<QuotaCalls & CounterCalls>({
    lane: 'counts' satisfies Lane,
    send,
    // Twice as long as for a store on the network: nothing is lost here, only late when every core is busy.
    timeoutMs: 2 * timeoutMs,
    onState: (available) => report?.(available),
  })
  const banCalls = createIpcCalls<BanCalls>({ lane: 'bans' satisfies Lane, send, timeoutMs })
  return { calls, banCalls }
}

interface StoreParts {
  readonly config: Config
  readonly log: Log
  readonly metrics: Metrics
  readonly calls: IpcCalls<QuotaCalls & CounterCalls>
  readonly banCalls: IpcCalls<BanCalls>
  readonly channel: SupervisorChannel
}

/** Redis, which this worker asks itself, or the stores embedded in the supervisor; and what the supervisor's notices reach. */
function openWorkerStores(parts: StoreParts): {
  readonly stores: Stores
  reclaimed(reclaim: Reclaim): void
  readonly bans: IpcBanStore | undefined
} {
  const { calls, channel, metrics } = parts
  const redis = connectStore({
    ...parts,
    onState: (health) => void channel.send({ kind: 'store', ...health }),
  })
  if (redis !== undefined)
    return {
      stores: { redis, ...redisStores(parts, redis) },
      reclaimed: () => undefined,
      bans: undefined,
    }
  const reclaims: ReclaimListener[] = []
  const bans = createIpcBanStore(parts.banCalls)
  const onReclaim = (listener: ReclaimListener): void => void reclaims.push(listener)
  const authority = createIpcAuthority({ calls, onReclaim, observe: metrics.quota })
  return {
    stores: { redis, authority, bans },
    reclaimed: ({ client, isUnknown }) => {
      for (const listener of reclaims) listener(client, isUnknown)
    },
    bans,
  }
}

function sharedCounters(
  { bans, anonymous, store }: Config,
  { redis }: Stores,
  calls: IpcCalls<CounterCalls>,
) {
  const own = createCounter({
    redis: undefined,
    keyPrefix: '',
    points: bans.strikes,
    lifetimeMs: bans.withinMs,
    timeoutMs: store.timeoutMs,
  })
  return {
    addresses: createSharedAddressCounter({
      calls,
      own: createAddressCounter(),
      ...anonymous,
    }),
    // Redis counts over all hosts.
    strikes: redis === undefined ? createSharedStrikes(calls, own) : undefined,
  }
}
