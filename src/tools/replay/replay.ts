/** Decides the requests of logs again, under one configuration or under two side by side, and reports the outcome. */
import type { Config, Limits } from '../../config/config.ts'
import { unreadableLog } from '../log-files/input.ts'
import type { OpenedLogs } from '../log-files/open.ts'
import type { RequestRow } from '../log-files/row.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import { perWindow, windowNames, type FixedWindow } from '../../config/time.ts'
import { ClientCounts, moreOf, outcomeOf, OverTime, plansOf } from './counts.ts'
import { Differences, type LoggedRequest } from './differences.ts'
import { ReplayedPolicy, type Decided } from './policy.ts'
import type { ReplayReport, Suggestions } from './report.ts'
import { Demand, suggest } from './suggest.ts'

interface ReplayOptions {
  readonly config: Config
  readonly against?: Config | undefined
  readonly logs: OpenedLogs
  /** Share of a plan's requests that suggested limits may refuse, from 0 to 1; undefined: nothing is suggested. */
  readonly share?: number | undefined
  readonly progress?: () => void
}

/** The client that a name in the log means under either configuration. */
interface Identity {
  /** The caller under the new configuration, or under the old one if the new one lacks the name. */
  readonly caller: Caller
  readonly isGone: boolean
  readonly before: Caller | undefined
  readonly number: number
}

const MOST_UNKNOWN_NAMES = 100
/** Enough for a million clients with several keys each: characters of all names, and what a name takes beside them. */
const MOST_NAME_CHARS = 2 ** 27
const CHARS_A_NAME = 32

export async function replay(options: ReplayOptions): Promise<ReplayReport> {
  const replaying = new Replaying(options)
  try {
    for await (const rows of options.logs.batches()) {
      replaying.take(rows)
      options.progress?.()
    }
    return replaying.report()
  } finally {
    await replaying.close()
  }
}

class Replaying {
  readonly #options: ReplayOptions
  readonly #policy: ReplayedPolicy
  readonly #before: ReplayedPolicy | undefined
  readonly #clients: ClientCounts
  readonly #overTime = new OverTime()
  readonly #demand: Demand | undefined
  readonly #differences: Differences
  #isOwn = false
  /** Clients by their name in the log; null: no configuration has the name. */
  readonly #known = new Map<string, Identity | null>()
  #nameChars = 0
  /** Unix time in ms of the line that reported what a client had used, by client. */
  readonly #seeded = new Map<string, number>()
  /** Numbers of clients that the new configuration lacks, or that have used a key which it lacks. */
  readonly #gone = new Set<number>()
  readonly #unknownNames = new Set<string>()
  #unknownRequests = 0
  #notJudged = 0
  #judged = 0
  #firstMs: number | undefined
  #lastMs = 0
  #notesRead = 0
  readonly #revisions = new Set<string>()

  constructor(options: ReplayOptions) {
    const { config, against, share } = options
    this.#options = options
    this.#demand = share === undefined ? undefined : new Demand()
    this.#policy = new ReplayedPolicy(config)
    this.#before = against && new ReplayedPolicy(against)
    this.#clients = new ClientCounts(against !== undefined)
    // The log was written under the configuration in force, which --against gives.
    const { bans, revision, store } = against ?? config
    const forgets = store.shared === undefined && store.file === undefined
    this.#differences = new Differences({ revision: shortOf(revision), forgets, bans })
  }

  take(rows: readonly RequestRow[]): void {
    const { notes } = this.#options.logs
    for (const note of notes.slice(this.#notesRead)) this.#differences.facts.applyNote(note)
    this.#notesRead = notes.length
    for (const row of rows) this.#request(row)
  }

  #request(row: RequestRow): void {
    const { atMs, caller: name, outcome: logged } = row
    this.#firstMs ??= atMs
    const isLate = atMs < this.#lastMs
    if (!isLate) this.#lastMs = atMs
    if (name === undefined || logged === 'nobody') return void this.#notJudged++
    let known = this.#known.get(name)
    if (known === undefined) known = this.#identify(row, name)
    if (known === null) return this.#unknown(name)
    if (isLate) return this.#late(row, known, logged)
    const isOwn = logged !== 'unknown'
    if (isOwn) this.#seed(row, known)
    const decided = known.isGone ? 'free' : this.#policy.decide(known.caller, row)
    const before = known.before && this.#before?.decide(known.before, row)
    const inForce = this.#before === undefined ? decided : before
    if (isOwn && inForce !== undefined)
      this.#differences.compare(this.#own(row, known, logged), inForce)
    this.#count(known, atMs, decided, before)
  }

  /** Takes a request that comes too late to be decided. It counts as in the log, and is charged if its windows are not over. */
  #late(row: RequestRow, known: Identity, logged: Decided | 'unknown'): void {
    const { caller, before, isGone } = known
    const { atMs, refundedAtMs } = row
    const decided = logged === 'unknown' ? 'admitted' : logged
    const isOwn = logged !== 'unknown'
    if (isOwn) this.#differences.late(this.#own(row, known, logged))
    // The rest that a client's first line reports includes this request.
    const reportedMs = isOwn && !this.#differences.isUnusedBefore ? Infinity : 0
    const isReported = atMs <= (this.#seeded.get(caller.clientId) ?? reportedMs)
    if (decided === 'admitted' && Number.isNaN(refundedAtMs) && !isReported) {
      const used = perWindow((window) => Number(isSameWindow(window, atMs, this.#lastMs)))
      if (!isGone) this.#policy.seed(caller, this.#lastMs, used)
      if (before !== undefined) this.#before?.seed(before, this.#lastMs, used)
    }
    this.#count(known, atMs, isGone ? 'free' : decided, before && decided)
  }

  #own(row: RequestRow, { caller, before = caller }: Identity, logged: Decided): LoggedRequest {
    if (row.revision !== undefined) this.#revisions.add(row.revision)
    this.#isOwn = true
    const { clientId: client, keyId } = caller
    return { ...row, client, keyId, limits: before.limits, logged }
  }

  #count(known: Identity, atMs: number, decided: Decided, before: Decided | undefined): void {
    const earlier = this.#before === undefined ? undefined : (before ?? 'free')
    if (decided === 'free' && (earlier ?? 'free') === 'free') return void this.#notJudged++
    this.#judged++
    this.#clients.add(known.number, atMs, decided, earlier)
    this.#overTime.add(atMs, decided, earlier)
    if (decided !== 'free' || known.isGone) this.#demand?.add(known.number, atMs)
  }

  #identify({ plan, outcome }: RequestRow, name: string): Identity | null {
    this.#nameChars += CHARS_A_NAME + name.length
    if (this.#nameChars > MOST_NAME_CHARS) {
      const [file = ''] = this.#options.logs.reading.files
      const reason = 'it has more names than there can be clients'
      throw unreadableLog(file, reason, 'name the field that tells the client')
    }
    const isOwn = outcome !== 'unknown'
    const now = this.#policy.callerOf(name, plan, isOwn)
    const before = this.#before?.callerOf(name, plan, isOwn)
    const caller = now ?? before
    const isGone = now === undefined
    const known =
      caller === undefined
        ? null
        : { caller, isGone, before, number: this.#clients.numberOf(caller.clientId, caller.plan) }
    if (known?.isGone) this.#gone.add(known.number)
    // A part of a line would keep all that was read with it in memory.
    this.#known.set(Buffer.from(name).toString(), known)
    return known
  }

  #unknown(name: string): void {
    this.#unknownRequests++
    if (this.#unknownNames.size < MOST_UNKNOWN_NAMES) this.#unknownNames.add(name)
  }

  /** Charges what a client had used when the log begins, computed from the rest that its first line reports. */
  #seed(row: RequestRow, { caller, before }: Identity): void {
    const { clientId } = caller
    if (this.#differences.isUnusedBefore || this.#seeded.has(clientId)) return
    // The line of a refunded request reports the rest of a later time.
    if (row.minuteLeft === undefined || !Number.isNaN(row.refundedAtMs)) return
    this.#seeded.set(clientId, row.atMs)
    const limits = this.#limitsThen(row.revision, caller, before)
    if (limits === undefined || this.#firstMs === undefined) return
    const used = usedBefore(row, limits, this.#firstMs)
    if (windowNames.every((name) => used[name] === 0)) return
    this.#differences.usedBefore.add(clientId)
    this.#policy.seed(caller, row.atMs, used)
    if (before !== undefined) this.#before?.seed(before, row.atMs, used)
  }

  /** Limits under which the line was written; undefined: its configuration is not at hand. */
  #limitsThen(revision: string | undefined, caller: Caller, before: Caller | undefined) {
    const { config, against } = this.#options
    if (revision === shortOf(config.revision)) return caller.limits
    return against && revision === shortOf(against.revision) ? before?.limits : undefined
  }

  report(): ReplayReport {
    const { config, against, logs } = this.#options
    const hasBefore = against !== undefined
    const clients = this.#clients.all
    const suggestions = this.#suggest()
    const { reading } = logs
    const isoOf = (ms: number): string | null =>
      this.#firstMs === undefined ? null : new Date(Math.floor(ms)).toISOString()
    return {
      overTime: this.#overTime.report(hasBefore),
      notJudged: this.#notJudged,
      requests: this.#judged,
      unknownClients: { requests: this.#unknownRequests, names: [...this.#unknownNames] },
      from: isoOf(this.#firstMs ?? 0),
      to: isoOf(this.#lastMs),
      revision: config.revision,
      ...(hasBefore && { against: against.revision, gone: this.#gone.size }),
      ...(this.#isOwn && { log: this.#differences.report() }),
      ...outcomeOf(clients, hasBefore),
      unreadable: reading.unreadable,
      clients: clients.toSorted((one, other) => moreOf(other) - moreOf(one)),
      plans: plansOf(clients, hasBefore),
      read: { ...reading, revisions: [...this.#revisions] },
      ...(suggestions && { suggestions }),
    }
  }

  #suggest(): Suggestions | undefined {
    const { config, share = 0 } = this.#options
    const clients = this.#clients.all
    if (this.#demand === undefined) return undefined
    const { planOf, ...found } = suggest({ config, demand: this.#demand, clients, share })
    for (const [number, client] of clients.entries()) client.suggest = planOf[number] ?? null
    return found
  }

  async close(): Promise<void> {
    await Promise.all([this.#policy.close(), this.#before?.close()])
  }
}

/** What the windows of `firstMs` had counted before this request, computed from the rest that its line reports. */
function usedBefore(row: RequestRow, limits: Limits, firstMs: number) {
  const own = Number(row.outcome === 'admitted')
  return perWindow((window) => {
    const left = row[`${window.name}Left`] ?? Infinity
    return isSameWindow(window, row.atMs, firstMs)
      ? Math.max(0, limits[window.limit] - left - own)
      : 0
  })
}

const isSameWindow = ({ lengthMs }: FixedWindow, oneMs: number, otherMs: number): boolean =>
  Math.floor(oneMs / lengthMs) === Math.floor(otherMs / lengthMs)

const shortOf = (revision: string): string => revision.slice(0, 6)
