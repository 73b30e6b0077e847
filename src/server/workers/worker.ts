/** The composition root of a worker: serves requests on a socket of its supervisor, and asks it for what workers share. */
import { answerCalls, IpcCalls } from '../../state/calls.ts'
import { createSharedAddressCounter, openSupervisorState } from '../../state/supervisor/home.ts'
import type { SharedCalls } from '../../state/supervisor/home.ts'
import { createLog } from '../../core/record/log.ts'
import { createMetrics } from '../../core/record/metrics.ts'
import type { PlainConfig } from '../../config/clients/client-table.ts'
import type { Config } from '../../config/config.ts'
import { everySecond, packSecond } from '../../insight/live/second.ts'
import type { Authority } from '../../state/quota.ts'
import { configNames } from '../gateway/lasting-parts.ts'
import type { Prepared } from '../gateway/reloader.ts'
import { Serving } from '../gateway/serving.ts'
import { createOutageReport, openSharedStore, type StoreParts } from '../gateway/stores.ts'
import { createConfigReader } from './client-pipe.ts'
import { CLIENTS_FD, LISTEN_FD, LOG_FD } from './messages.ts'
import type { StartMessage, ToSupervisor, ToWorker, WorkerQuestions } from './messages.ts'

/** The IPC channel as src/main.ts gives it. */
export interface SupervisorChannel {
  /** Resolves when the message was handed over or cannot be. */
  send(message: ToSupervisor): Promise<void>
  onMessage(listener: (message: ToWorker) => void): void
  onGone(listener: () => void): void
}

/** A worker without its supervisor cannot be stopped, and gets no quota: it ends soon. */
const ORPHAN_DRAIN_MS = 5_000

export function createWorker(channel: SupervisorChannel) {
  const finished = Promise.withResolvers<number>()
  const readConfig = createConfigReader(CLIENTS_FD)
  let parts: ReturnType<typeof createParts> | undefined
  let isDraining = false

  const begin = async (start: StartMessage): Promise<void> => {
    try {
      const config = await readConfig(start.config)
      parts = createParts({ ...start, config }, readConfig, channel)
      await parts.serving.ready()
      if (isDraining) return
      await parts.serving.listen(LISTEN_FD)
      await channel.send({ kind: 'listening', facts: parts.serving.facts })
    } catch (error) {
      const { message, code, syscall } = error as NodeJS.ErrnoException
      await channel.send({ kind: 'failed', fault: { message, code, syscall } })
      await parts?.log.close()
      finished.resolve(1)
    }
  }
  const drain = async (times: { idleMs: number; atMostMs?: number }): Promise<void> => {
    if (isDraining) return
    isDraining = true
    await parts?.end(times)
    finished.resolve(0)
  }

  channel.onMessage((message) => {
    if (message.kind === 'start') void begin(message)
    else if (message.kind === 'drain') void drain(message)
    // What is said before the parts are there is of no use to them: they read all bans, and hold no quota yet.
    else parts?.receive(message)
  })
  channel.onGone(() => {
    parts?.orphan()
    void drain({ idleMs: 0, atMostMs: ORPHAN_DRAIN_MS })
    // A drain that began earlier, and waits for an answer of the supervisor, ends too.
    setTimeout(() => finished.resolve(1), 2 * ORPHAN_DRAIN_MS).unref()
  })
  return {
    /** Resolves with the exit code when nothing is left to do. */
    finished: finished.promise,
    crash: (error: unknown) => parts?.log.crash(error),
  }
}

function createParts(
  start: Omit<StartMessage, 'config'> & { readonly config: Config },
  readConfig: (plain: PlainConfig) => Promise<Config>,
  channel: SupervisorChannel,
) {
  const { number, version, ticketSecret, config } = start
  const log = createLog({ ...config.log, worker: number, destination: LOG_FD, isShared: true })
  const metrics = createMetrics({ version, ...configNames(config) })
  const parts = { version, config, log, metrics, ticketSecret }
  const { calls, noticed, stores, bans } = connect(parts, channel)
  const addresses = createSharedAddressCounter(calls)
  const serving = new Serving({ ...parts, number, stores, addresses })
  const taking = createTaking(serving, channel)
  const measure = async () => channel.send({ kind: 'measured', snapshot: await metrics.snapshot() })
  const handlers = { ...serving.answers, measure }
  const lastSecond = sendSeconds(serving, channel, () => measure().catch(log.adminFailed))
  return {
    log,
    serving,
    end: async (times: Parameters<Serving['drain']>[0]): Promise<void> => {
      await serving.drain(times)
      await lastSecond()
      await serving.close()
      await log.close()
    },
    orphan: () => calls.close(),
    receive: (message: ToWorker) => {
      if (message.kind === 'answers') calls.receive(message)
      else if (message.kind === 'quota') {
        for (const { client, notice, totals } of message.notices)
          for (const [listener] of noticed) listener(client, notice, undefined, totals)
      } else if (message.kind === 'banned') bans.banned(message.keyId, message.ban)
      else if (message.kind === 'missed') {
        bans.stale()
        for (const [, onFlow] of noticed) onFlow?.(true)
      } else if (message.kind === 'prepare')
        taking.prepare(message.round, readConfig(message.config))
      else if (message.kind === 'commit' || message.kind === 'abort') taking.settle(message.kind)
      else if (message.kind === 'calls')
        answerCalls<WorkerQuestions>(handlers, message, (answers) => void channel.send(answers))
    },
  }
}

/** A worker's part in a configuration that all workers take together, or none: each is prepared, then settled. */
function createTaking(serving: Serving, channel: SupervisorChannel) {
  let latest: Promise<Prepared> | undefined
  return {
    prepare(round: number, config: Promise<Config>): void {
      const answer = (fault?: string) => void channel.send({ kind: 'prepared', round, fault })
      latest = config.then((whole) => serving.prepare(whole))
      latest.then(
        () => answer(),
        ({ message }: Error) => answer(message),
      )
    },
    /** Takes or drops the latest as soon as it is prepared. */
    settle: (verdict: 'commit' | 'abort') =>
      void latest?.then(
        (made) => made[verdict](),
        () => undefined,
      ),
  }
}

/** Sends what has happened each second. The returned function sends the last; it resolves when that was handed over. */
function sendSeconds(serving: Serving, channel: SupervisorChannel, measure: () => Promise<void>) {
  let sends = 0
  /** A second that a stalled supervisor does not take is reported with the next, so that it does not fill the memory. */
  let isUnsent = false
  const send = async (at: number, isLast = false): Promise<void> => {
    isUnsent = true
    const second = packSecond(serving.takeSecond(at))
    await channel.send({ kind: 'second', second, now: serving.now, facts: serving.facts })
    // A killed worker loses its counts of two seconds at most, however seldom anybody asks for them.
    if ((sends += 1) % 2 === 0 || isLast) await measure()
    isUnsent = false
  }
  const stop = everySecond((at) => {
    if (!isUnsent) void send(at)
  })
  return (): Promise<void> => {
    stop()
    return send(Math.floor(Date.now() / 1000), true)
  }
}

/** Opens the store that gateways share, or what the supervisor keeps; addresses are counted by the supervisor in any case. */
function connect(parts: Required<StoreParts>, channel: SupervisorChannel) {
  const calls = new IpcCalls<SharedCalls>({
    send: (batch) => void channel.send(batch),
    // Twice as long as for a store on the network: a message is never lost here, only late when every core is busy.
    timeoutMs: 2 * parts.config.store.timeoutMs,
  })
  const shared = openSharedStore(parts)
  if (shared === undefined) calls.onState(createOutageReport(parts))
  /** Receivers of the supervisor's notices, and of the news that some were left out; with a shared store there are none. */
  const noticed: Parameters<NonNullable<Authority['onNotice']>>[] = []
  const onNotice = (...receivers: (typeof noticed)[number]) => void noticed.push(receivers)
  const own = openSupervisorState({ calls, onNotice })
  return { calls, noticed, stores: shared ?? own, bans: own.bans }
}
