/** Decides the requests of logs again, under one configuration or under two side by side, and reports the outcome. */
import type { Config } from '../../config/config.ts'
import type { LogBatch, OpenedLogs } from '../log-files/batch.ts'
import { NO_NAME, outcomes } from '../log-files/batch.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'
import { ClientRows } from './client-rows.ts'
import { Differences } from './differences.ts'
import { isSameWindow, loggedRequest, usedBefore, type LoggedRequest } from './logged.ts'
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
  /** Clients in the order of their numbers, see observe. */
  readonly clients: ReplayReport['clients']
}

/** The client that a name in the log means under either configuration. */
interface Identity {
  /** The caller under the new configuration, or under the old one if the new one lacks the name. */
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
      // Signals are handled between two batches.
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
  /** Differences from Tollgate's own lines. */
  readonly #differences: Differences
  #isOwn = false
  /** Clients by the number of their name; null: no configuration has the name. */
  readonly #known: (Identity | null | undefined)[] = []
  /** Unix time in ms of the line that reported what a client had used, by client. */
  readonly #seeded = new Map<string, number>()
  /** Rows of clients that the new configuration lacks, or that have used a key which it lacks. */
  readonly #gone = new Set<number>()
  readonly #unknownNames = new Set<string>()
  #unknownRequests = 0
  #notJudged = 0
  #judged = 0
  #firstMs: number | undefined
  #lastMs = 0
  #notesRead = 0
  readonly #revisions = new Set<number>()

  constructor(options: ReplayOptions) {
    const { config, against } = options
    this.#options = options
    this.#policy = new ReplayedPolicy(config)
    this.#before = against && new ReplayedPolicy(against)
    // The log was written under the configuration in force, which --against gives.
    const { bans, revision, store } = against ?? config
    const forgets = store.redis === undefined && store.file === undefined
    this.#differences = new Differences({ revision: shortOf(revision), forgets, bans })
  }

  take(batch: LogBatch): void {
    const { notes } = this.#options.logs
    for (const note of notes.slice(this.#notesRead)) this.#differences.applyNote(note)
    this.#notesRead = notes.length
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
    const known = this.#known[name] ?? this.#identify(batch, at, name, isOwn)
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

  /** Takes a request that comes too late to be decided. It counts as in the log, and is charged if its windows are not over. */
  #late(batch: LogBatch, at: number, known: Identity, logged: Decided | 'unknown'): void {
    const { caller, before, isGone } = known
    const atMs = batch.atMs[at] ?? 0
    const decided = logged === 'unknown' ? 'admitted' : logged
    const isOwn = logged !== 'unknown'
    const isReplaced = isOwn && this.#differences.late(this.#own(batch, at, known, logged))
    // The rest that a client's first line reports includes this request.
    const reportedMs = isOwn && !this.#differences.isUnusedBefore ? Infinity : 0
    const isReported = atMs <= (this.#seeded.get(caller.clientId) ?? reportedMs)
    if (decided === 'admitted' && Number.isNaN(batch.refundedAtMs[at]) && !isReported) {
      const runs = (lengthMs: number): number => Number(isSameWindow(lengthMs, atMs, this.#lastMs))
      const used = { minute: runs(MINUTE_MS), day: runs(DAY_MS) }
      if (!isGone && (before !== undefined || !isReplaced))
        this.#policy.seed(caller, this.#lastMs, used)
      if (before !== undefined && !isReplaced) this.#before?.seed(before, this.#lastMs, used)
    }
    this.#count(known, atMs, isGone ? 'free' : decided, before && decided)
  }

  #own(batch: LogBatch, at: number, { caller, before }: Identity, logged: Decided): LoggedRequest {
    const { names } = this.#options.logs
    this.#revisions.add(batch.revision[at] ?? NO_NAME)
    this.#isOwn = true
    return loggedRequest(batch, at, { names, logged, caller, before })
  }

  #count(known: Identity, atMs: number, decided: Decided, before: Decided | undefined): void {
    const earlier = this.#before === undefined ? undefined : (before ?? 'free')
    if (decided === 'free' && (earlier ?? 'free') === 'free') return void this.#notJudged++
    this.#judged++
    this.#rows.add(known.row, atMs, decided)
    if (earlier !== undefined) this.#rows.addBefore(known.row, earlier)
    this.#overTime.add(atMs, decided, earlier)
    if (decided !== 'free' || known.isGone) this.#options.observe?.(known.row, atMs)
  }

  #identify(batch: LogBatch, at: number, name: number, isOwn: boolean): Identity | null {
    const earlier = this.#known[name]
    if (earlier === null) return earlier
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

  /** Charges what a client had used when the log begins, computed from the rest that its first line reports. */
  #seed(batch: LogBatch, at: number, { caller, before }: Identity): void {
    const { clientId } = caller
    if (this.#differences.isUnusedBefore || this.#seeded.has(clientId)) return
    // The line of a refunded request reports the rest of a later time.
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

  /** Limits under which the line was written; undefined: its configuration is not at hand. */
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
