/** Decides the requests of logs anew, by one configuration or by two side by side, and tells what came of it. */
import type { Config } from '../../config/config.ts'
import type { LogBatch, OpenedLogs } from '../log-files/batch.ts'
import { NO_NAME, outcomes } from '../log-files/batch.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'
import { ClientRows } from './client-rows.ts'
import { Differences } from './differences.ts'
import { isOfOne, loggedRequest, usedBefore, type LoggedRequest } from './logged.ts'
import { OverTime } from './over-time.ts'
import { ReplayedPolicy, type Decided } from './policy.ts'
import type { ReplayReport } from './report.ts'
import { reportOf } from './totals.ts'

export interface ReplayOptions {
  readonly config: Config
  readonly against?: Config | undefined
  readonly logs: OpenedLogs
  /** Called for each request that was judged; clients are numbers from 0 on, in the order of `clients` of the result. */
  readonly observe?: ((client: number, atMs: number) => void) | undefined
  /** Called after each batch. */
  readonly progress?: (requests: number) => void
}

export interface Replayed {
  readonly report: ReplayReport
  /** In their numbers, see observe. */
  readonly clients: ReplayReport['clients']
}

/** Of one name: who it is by either configuration. */
interface Known {
  /** Where the new configuration has nobody of that name, by the old one. */
  readonly caller: Caller
  readonly isGone: boolean
  readonly before: Caller | undefined
  readonly row: number
}

const MOST_UNKNOWN_NAMES = 100
const NEXT_TURN_AFTER_MS = 20

export async function replay(options: ReplayOptions): Promise<Replayed> {
  const replaying = new Replaying(options)
  try {
    let turnMs = performance.now()
    for await (const batch of options.logs.batches()) {
      replaying.take(batch)
      options.progress?.(replaying.requests)
      if (performance.now() - turnMs < NEXT_TURN_AFTER_MS) continue
      // Signals are heard between two batches.
      await new Promise((resolve) => setImmediate(resolve))
      turnMs = performance.now()
    }
    return replaying.result()
  } finally {
    await replaying.close()
    await options.logs.close()
  }
}

class Replaying {
  requests = 0
  readonly #options: ReplayOptions
  readonly #policy: ReplayedPolicy
  readonly #before: ReplayedPolicy | undefined
  readonly #rows = new ClientRows()
  readonly #overTime = new OverTime()
  /** Of lines that are ours. */
  readonly #differences: Differences
  #isOwn = false
  /** By number of the name; null: nobody of that name. */
  readonly #known: (Known | null | undefined)[] = []
  /** By client, when its first line told what it had used. Unix time in ms. */
  readonly #seeded = new Map<string, number>()
  /** Rows of clients that the new configuration lacks, or lacks a key of. */
  readonly #gone = new Set<number>()
  readonly #unknownNames = new Set<string>()
  #unknownRequests = 0
  #notJudged = 0
  #judged = 0
  #firstMs: number | undefined
  #lastMs = 0
  #heard = 0
  readonly #revisions = new Set<number>()

  constructor(options: ReplayOptions) {
    const { config, against } = options
    this.#options = options
    this.#policy = new ReplayedPolicy(config)
    this.#before = against && new ReplayedPolicy(against)
    // The log is that of the one in force.
    const { bans, revision, store } = against ?? config
    const forgets = store.redis === undefined && store.file === undefined
    this.#differences = new Differences({ revision: shortOf(revision), forgets, bans })
  }

  take(batch: LogBatch): void {
    const { notes } = this.#options.logs
    for (const note of notes.slice(this.#heard)) this.#differences.hear(note)
    this.#heard = notes.length
    for (let at = 0; at < batch.count; at++) this.#request(batch, at)
  }

  #request(batch: LogBatch, at: number): void {
    const atMs = batch.atMs[at] ?? 0
    this.requests++
    this.#firstMs ??= atMs
    const isLate = atMs < this.#lastMs
    if (!isLate) this.#lastMs = atMs
    const logged = outcomes[batch.outcome[at] ?? 0] ?? 'unknown'
    const name = batch.caller[at] ?? NO_NAME
    if (name === NO_NAME || logged === 'nobody') return void this.#notJudged++
    const isOwn = logged !== 'unknown'
    const known = this.#known[name] ?? this.#meet(batch, at, name, isOwn)
    if (known === null) return this.#unknown(name)
    if (isLate) return this.#late(batch, at, known, logged)
    const { names } = this.#options.logs
    const routeName = names[batch.route[at] ?? NO_NAME]
    const refundedAtMs = batch.refundedAtMs[at] ?? Number.NaN
    const line = { routeName, isFree: logged === 'free', refundedAtMs }
    if (isOwn) this.#seed(batch, at, known)
    const decided = known.isGone ? 'free' : this.#policy.decide(known.caller, atMs, line)
    const before = known.before && this.#before?.decide(known.before, atMs, line)
    const inForce = this.#before === undefined ? decided : before
    if (isOwn && inForce !== undefined)
      this.#differences.compare(this.#own(batch, at, known, logged), inForce)
    this.#count(known, atMs, decided, before)
  }

  /** What comes too late is not decided: its windows may be over. It counts as the log has it, and is charged where they still run. */
  #late(batch: LogBatch, at: number, known: Known, logged: Decided | 'unknown'): void {
    const { caller, before, isGone } = known
    const atMs = batch.atMs[at] ?? 0
    const decided = logged === 'unknown' ? 'admitted' : logged
    const isOwn = logged !== 'unknown'
    const isReplaced = isOwn && this.#differences.late(this.#own(batch, at, known, logged))
    // What a client's first line has left tells of it too.
    const toldMs = isOwn && !this.#differences.isFromNothing ? Infinity : 0
    const isTold = atMs <= (this.#seeded.get(caller.clientId) ?? toldMs)
    if (decided === 'admitted' && Number.isNaN(batch.refundedAtMs[at]) && !isTold) {
      const runs = (lengthMs: number): number => Number(isOfOne(lengthMs, atMs, this.#lastMs))
      const used = { minute: runs(MINUTE_MS), day: runs(DAY_MS) }
      if (!isGone && (before !== undefined || !isReplaced))
        this.#policy.seed(caller, this.#lastMs, used)
      if (before !== undefined && !isReplaced) this.#before?.seed(before, this.#lastMs, used)
    }
    this.#count(known, atMs, isGone ? 'free' : decided, before && decided)
  }

  #own(batch: LogBatch, at: number, { caller, before }: Known, logged: Decided): LoggedRequest {
    const { names } = this.#options.logs
    this.#revisions.add(batch.revision[at] ?? NO_NAME)
    this.#isOwn = true
    return loggedRequest(batch, at, { names, logged, caller, before })
  }

  #count(known: Known, atMs: number, decided: Decided, before: Decided | undefined): void {
    const earlier = this.#before === undefined ? undefined : (before ?? 'free')
    if (decided === 'free' && (earlier ?? 'free') === 'free') return void this.#notJudged++
    this.#judged++
    this.#rows.add(known.row, atMs, decided)
    if (earlier !== undefined) this.#rows.addBefore(known.row, earlier)
    this.#overTime.add(atMs, decided, earlier)
    if (decided !== 'free' || known.isGone) this.#options.observe?.(known.row, atMs)
  }

  #meet(batch: LogBatch, at: number, name: number, isOwn: boolean): Known | null {
    const met = this.#known[name]
    if (met === null) return met
    const { names } = this.#options.logs
    const text = names[name] ?? ''
    const plan = names[batch.plan[at] ?? NO_NAME]
    const now = this.#policy.callerOf(text, plan, isOwn)
    const before = this.#before?.callerOf(text, plan, isOwn)
    const caller = now ?? before
    const isGone = now === undefined
    const known =
      caller === undefined
        ? null
        : { caller, isGone, before, row: this.#rows.numberOf(caller.clientId, caller.plan) }
    if (known?.isGone) this.#gone.add(known.row)
    this.#known[name] = known
    return known
  }

  #unknown(name: number): void {
    this.#unknownRequests++
    if (this.#unknownNames.size < MOST_UNKNOWN_NAMES)
      this.#unknownNames.add(this.#options.logs.names[name] ?? '')
  }

  /** What a client had used when the log begins: its first line of the windows that ran then tells what is left. */
  #seed(batch: LogBatch, at: number, { caller, before }: Known): void {
    const { clientId } = caller
    if (this.#differences.isFromNothing || this.#seeded.has(clientId)) return
    // Once its charge was handed back, the line tells of a later moment.
    if (batch.minuteLeft[at] === -1 || !Number.isNaN(batch.refundedAtMs[at])) return
    const atMs = batch.atMs[at] ?? 0
    this.#seeded.set(clientId, atMs)
    const revision = this.#options.logs.names[batch.revision[at] ?? NO_NAME]
    const limits = this.#limitsThen(revision, caller, before)
    if (limits === undefined || this.#firstMs === undefined) return
    const used = usedBefore(batch, at, limits, this.#firstMs)
    if (used.minute === 0 && used.day === 0) return
    this.#differences.usedBefore(clientId, this.#firstMs)
    this.#policy.seed(caller, atMs, used)
    if (before !== undefined) this.#before?.seed(before, atMs, used)
  }

  /** Under which the line was written; undefined: under those of a configuration that is not here. */
  #limitsThen(revision: string | undefined, caller: Caller, before: Caller | undefined) {
    const { config, against } = this.#options
    if (revision === shortOf(config.revision)) return caller.limits
    return against !== undefined && revision === shortOf(against.revision)
      ? before?.limits
      : undefined
  }

  result(): Replayed {
    const { config, against, logs } = this.#options
    const hasBefore = against !== undefined
    const clients = Array.from({ length: this.#rows.size }, (_, number) =>
      this.#rows.client(number, hasBefore),
    )
    const report = reportOf(clients, {
      hasBefore,
      overTime: this.#overTime.report(hasBefore),
      notJudged: this.#notJudged,
      requests: this.#judged,
      unknownClients: { requests: this.#unknownRequests, names: [...this.#unknownNames] },
      from: this.#firstMs === undefined ? null : new Date(Math.floor(this.#firstMs)).toISOString(),
      to: this.#firstMs === undefined ? null : new Date(Math.floor(this.#lastMs)).toISOString(),
      revision: config.revision,
      ...(hasBefore && { against: against.revision, gone: this.#gone.size }),
      ...(this.#isOwn && { log: this.#differences.report() }),
      reading: logs.reading,
      revisions: [...this.#revisions].flatMap((number) => logs.names[number] ?? []),
    })
    return { report, clients }
  }

  async close(): Promise<void> {
    await Promise.all([this.#policy.close(), this.#before?.close()])
  }
}

const shortOf = (revision: string): string => revision.slice(0, 6)
