/** The composition root of a worker: serves requests on a socket of its supervisor, and asks it for what workers share. */
import { createAddressCounter } from '../../state/memory/addresses.ts'
import type { BanCalls } from '../../state/supervisor/bans.ts'
import { answerCalls, createIpcCalls, type CallBatch } from '../../state/supervisor/calls.ts'
import { openSupervisorState } from '../../state/supervisor/home.ts'
import { createLog } from '../../core/record/log.ts'
import { createMetrics } from '../../core/record/metrics.ts'
import { createSharedAddressCounter, type CounterCalls } from '../../state/supervisor/counters.ts'
import { fromPlainConfig } from '../../config/clients/client-table.ts'
import type { Config } from '../../config/config.ts'
import { everySecond } from '../../insight/live/second.ts'
import { packSecond } from '../../insight/live/packed-second.ts'
import type { QuotaCalls } from '../../state/supervisor/authority.ts'
import type { Authority, NoticeListener } from '../../state/quota.ts'
import { configNames, Serving } from '../gateway/serving.ts'
import { createOutageReport, openSharedStore, type StoreParts } from '../gateway/stores.ts'
import { Taking } from './taking.ts'
import { TableReader, START_TABLE } from './client-table-pipe.ts'
import { LISTEN_FD, type StartMessage, type ToSupervisor, type ToWorker } from './messages.ts'

/** The IPC channel as src/main.ts gives it. */
export interface SupervisorChannel {
  /** Resolves when the message was handed over or cannot be. */
  send(message: ToSupervisor): Promise<void>
  onMessage(listener: (message: ToWorker) => void): void
  onGone(listener: () => void): void
}

/** Delay before the supervisor receives what has changed: backends may change often. */
const REPORT_AFTER_MS = 100

/** A worker without its supervisor cannot be stopped, and gets no quota: it ends soon. */
const ORPHAN_DRAIN_MS = 5_000

export function createWorker(channel: SupervisorChannel) {
  const finished = Promise.withResolvers<number>()
  const tables = TableReader.open()
  let parts: ReturnType<typeof createParts> | undefined
  /** Messages of rounds, while the clients are still on their way. */
  const early: ToWorker[] = []
  let isDraining = false

  const begin = async (start: StartMessage): Promise<void> => {
    let isListener = false
    try {
      const config = fromPlainConfig(start.config, await tables.table(START_TABLE))
      if (isDraining) return
      parts = createParts({ ...start, config }, tables, channel, (error) => {
        parts?.log.crash(error)
        finished.resolve(1)
      })
      early.forEach(parts.receive)
      await parts.serving.ready()
      // The worker has to serve its first request under the configuration that all others have.
      await parts.taking.idle
      if (isDraining) return
      isListener = true
      await parts.serving.listen(LISTEN_FD)
      await parts.sendFacts()
      await channel.send({ kind: 'listening' })
    } catch (error) {
      const { message, code } = error as NodeJS.ErrnoException
      await channel.send({ kind: 'failed', fault: { message, code, isListener } })
      finished.resolve(1)
    }
  }
  const drain = async (times: { idleMs: number; atMostMs?: number }): Promise<void> => {
    if (isDraining) return
    isDraining = true
    if (parts !== undefined) await end(parts, times, channel)
    finished.resolve(0)
  }

  channel.onMessage((message) => {
    if (message.kind === 'abort') tables.giveUp(message.round)
    if (message.kind === 'start') void begin(message)
    else if (message.kind === 'drain') void drain(message)
    else if (message.kind === 'beat') void channel.send({ kind: 'alive' })
    else if (parts !== undefined) parts.receive(message)
    else if ('round' in message) early.push(message)
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
  tables: TableReader,
  channel: SupervisorChannel,
  onLeftBehind: (error: Error) => void,
) {
  const { number, version, ticketSecret, gatewayId, config } = start
  const log = createLog({ ...config.log, worker: number })
  const metrics = createMetrics({ version, ...configNames(config) })
  const parts = { version, config, log, metrics, ticketSecret, gatewayId }
  const lanes = openLanes(parts, channel)
  const sendFacts = () => channel.send({ kind: 'facts', facts: serving.facts })
  const onFacts = soon(() => void sendFacts())
  const { stores, bans, noticed, flows } = connectStores(parts, lanes, onFacts)
  const serving: Serving = new Serving({
    ...parts,
    number,
    stores,
    onFacts,
    addresses: createSharedAddressCounter({ calls: lanes.calls, own: createAddressCounter() }),
  })
  const taking = new Taking({
    target: serving,
    answer: (round, fault) => void channel.send({ kind: 'prepared', round, fault }),
    onLeftBehind,
  })
  const lastSecond = sendSeconds(serving, channel)
  return {
    log,
    metrics,
    serving,
    sendFacts,
    taking,
    lastSecond,
    /** Called when the supervisor is gone. */
    orphan: () => {
      for (const lane of Object.values(lanes)) lane.close()
    },
    receive: (message: ToWorker) => {
      if (message.kind === 'answers') for (const lane of Object.values(lanes)) lane.receive(message)
      else if (message.kind === 'quota') {
        for (const { client, notice, totals } of message.notices)
          for (const listener of noticed) listener(client, notice, undefined, totals)
      } else if (message.kind === 'banned') bans.banned(message.keyId, message.ban)
      else if (message.kind === 'missed') {
        bans.stale()
        for (const onFlow of flows) onFlow(true)
      } else if (message.kind === 'prepare')
        taking.prepare(message.round, message.config, tables.table(message.round))
      else if (message.kind === 'commit' || message.kind === 'abort')
        taking.settle(message.kind, message.round)
      else if (message.kind === 'measure') void measure({ ...parts, channel }, message)
      else if (message.kind === 'calls')
        answerCalls(serving.answers, message, (answers) => void channel.send(answers))
      else if (message.kind === 'listen') passDecisions(serving, channel, message.isWanted)
    },
  }
}

async function end(
  { serving, metrics, log, lastSecond }: ReturnType<typeof createParts>,
  times: Parameters<Serving['drain']>[0],
  channel: SupervisorChannel,
): Promise<void> {
  await serving.drain(times)
  await lastSecond()
  await channel.send({ kind: 'measured', snapshot: await metrics.snapshot() })
  await serving.close()
  await log.close()
}

/** Passes decisions on while anybody listens to them. */
function passDecisions({ recent }: Serving, channel: SupervisorChannel, isWanted: boolean): void {
  recent.listen(
    isWanted
      ? (decisions, untold) => void channel.send({ kind: 'decisions', decisions, untold })
      : undefined,
  )
}

async function measure(
  { log, metrics, channel }: StoreParts & { readonly channel: SupervisorChannel },
  { question }: Extract<ToWorker, { kind: 'measure' }>,
): Promise<void> {
  try {
    await channel.send({ kind: 'measured', question, snapshot: await metrics.snapshot() })
  } catch (error) {
    log.adminFailed(error)
  }
}

/** Sends what has happened each second. The returned function sends the last; it resolves when that was handed over. */
function sendSeconds({ takeSecond, now }: Serving, channel: SupervisorChannel) {
  /** A second that a stalled supervisor does not take is reported with the next, so that it does not fill the memory. */
  let isUnsent = false
  const send = async (at: number): Promise<void> => {
    isUnsent = true
    await channel.send({ kind: 'second', second: packSecond(takeSecond(at)), now: now() })
    isUnsent = false
  }
  const stop = everySecond((at) => {
    if (!isUnsent) void send(at)
  })
  return (): Promise<void> => {
    stop()
    return send(Math.floor(Date.now() / 1000))
  }
}

/** Reports once for all changes within a moment. */
function soon(report: () => void): () => void {
  let timer: NodeJS.Timeout | undefined
  return () => {
    timer ??= setTimeout(() => {
      timer = undefined
      report()
    }, REPORT_AFTER_MS).unref()
  }
}

/** noticed: receivers of the supervisor's notices; with Redis there are none. flows: those that are called when some were left out. */
function connectStores(
  parts: StoreParts,
  { calls, banCalls }: ReturnType<typeof openLanes>,
  onState: () => void,
) {
  const { metrics } = parts
  const shared = openSharedStore({ ...parts, onState })
  const noticed: NoticeListener[] = []
  const flows: ((isFlowing: boolean) => void)[] = []
  const onNotice: NonNullable<Authority['onNotice']> = (listener, onFlow) => {
    noticed.push(listener)
    if (onFlow !== undefined) flows.push(onFlow)
  }
  const own = openSupervisorState({ calls, onNotice, observe: metrics.quota }, banCalls)
  return { stores: shared ?? own, bans: own.bans, noticed, flows }
}

/** Opens two lanes to the supervisor: bans wait for its disk, and quota must not wait with them. */
function openLanes(parts: StoreParts, channel: SupervisorChannel) {
  const { redis, timeoutMs } = parts.config.store
  const report = redis === undefined ? createOutageReport(parts) : undefined
  const send = (batch: CallBatch): void => void channel.send(batch)
  const calls = createIpcCalls<QuotaCalls & CounterCalls>({
    lane: 'counts',
    send,
    // Twice as long as for a store on the network: a message is never lost here, only late when every core is busy.
    timeoutMs: 2 * timeoutMs,
    onState: (available) => report?.(available),
  })
  const banCalls = createIpcCalls<BanCalls>({ lane: 'bans', send, timeoutMs })
  return { calls, banCalls }
}
