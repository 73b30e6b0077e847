/**
 * Finds where the log's answers differ from the replay's, and why. A cause is given only where the log shows it, for the client and
 * the windows that the answer depends on. Where the log itself has admitted more than a limit, tokens that other processes held are
 * no excuse.
 */
import { perWindow, windows, type FixedWindow } from '../../config/time.ts'
import { leftFields, type RequestRow, type WindowsLeft } from '../log-files/row.ts'
import type { BansConfig, Limits } from '../../config/config.ts'
import { Facts, NEWS_MS, startOf } from './facts.ts'
import type { Decided } from './policy.ts'
import type { Cause, ReplayReport } from './report.ts'

type Comparison = NonNullable<ReplayReport['log']>

/** A line of Tollgate's own log on a request that the replay decides, too. */
export interface LoggedRequest extends Pick<
  RequestRow,
  'atMs' | 'refundedAtMs' | 'isDegraded' | 'revision' | 'process' | keyof WindowsLeft
> {
  readonly client: string
  readonly keyId: string
  /** Limits in force when the request was logged. */
  readonly limits: Limits
  readonly logged: Decided
}

interface DifferencesOptions {
  /** The revision in short, as in lines of the log. */
  readonly revision: string
  /** Whether a restart loses all use. */
  readonly forgets: boolean
  readonly bans: Pick<BansConfig, 'withinMs' | 'forgetAfterMs'>
}

type History = ReturnType<typeof newHistory>

/** The latest difference in a key's bans, or in the refusals that are its strikes. Differences that depend on it have its cause. */
interface Latest {
  readonly atMs: number
  readonly cause: Cause
}

/** Counts what the log itself reports of a client in its current window. */
class WindowCounts {
  /** Requests that the replay has charged more than the log; negative: fewer. */
  ahead = 0
  /** Whether more than one process decided. */
  isShared = false
  /** Cause of the last request that only one of log and replay has charged. */
  cause: Cause | undefined
  readonly window: FixedWindow
  #index = -Infinity
  /** Requests that were charged and not refunded. */
  #charged = 0
  /** Part of #charged that was decided without the store. */
  #degraded = 0
  constructor(window: FixedWindow) {
    this.window = window
  }

  moveTo(atMs: number): void {
    if (this.isRunning(atMs)) return
    this.#index = Math.floor(atMs / this.window.lengthMs)
    this.ahead = this.#charged = this.#degraded = 0
    this.cause = undefined
    this.isShared = false
  }

  /** Whether the current window is that of this time. */
  isRunning(atMs: number): boolean {
    return Math.floor(atMs / this.window.lengthMs) === this.#index
  }

  charge({ refundedAtMs, isDegraded }: LoggedRequest): void {
    if (!Number.isNaN(refundedAtMs)) return
    this.#charged++
    if (isDegraded) this.#degraded++
  }

  shift(ahead: number, cause: Cause): void {
    if (ahead === 0) return
    this.ahead += ahead
    this.cause = cause
  }

  /** Whether the log itself counts more than the limit in the window of this request. */
  isBeyond({ limits, atMs }: LoggedRequest): boolean {
    return this.#charged > limits[this.window.limit] && this.isRunning(atMs)
  }

  /** Whether the decisions that were made with the store already exceed the limit. */
  isBeyondStore({ limits }: LoggedRequest): boolean {
    return this.#charged - this.#degraded > limits[this.window.limit]
  }
}

export class Differences {
  readonly #options: DifferencesOptions
  /** Takes notes as soon as they are read: one may explain an answer that was logged before it. */
  readonly facts = new Facts()
  readonly #clients = new Map<string, History>()
  readonly #strikes = new Map<string, Latest>()
  readonly #bans = new Map<string, Latest>()
  readonly #examples = new Map<Cause, Comparison['examples'][number]>()
  readonly #differs = { limits: 0, strikes: 0, missing: 0, unexplained: 0 }
  /** Clients that had used something when the log begins. */
  readonly usedBefore = new Set<string>()
  #firstMs = Infinity
  #same = 0

  constructor(options: DifferencesOptions) {
    this.#options = options
  }

  /** Whether nothing was used before: the log begins with the start of a gateway that keeps no use over a restart. */
  get isUnusedBefore(): boolean {
    return this.#options.forgets && this.#isFromStart
  }

  get #isFromStart(): boolean {
    return this.facts.during('start', -Infinity, this.#firstMs) !== undefined
  }

  /**
   * Compares the answers to a request; called for each request of a known client, in order. Equal answers differ, too, where the log
   * has admitted more than the limit and nothing explains it.
   */
  compare(request: LoggedRequest, replayed: Decided): void {
    const { atMs, keyId, logged } = request
    this.#firstMs = Math.min(this.#firstMs, atMs)
    const history = this.#note(request)
    const beyondBy = this.#causeBeyond(request, history)
    if (logged === replayed && beyondBy !== 'unexplained') {
      if (replayed !== 'free') this.#same++
      return
    }
    const isBan = logged === 'ban' || replayed === 'ban'
    const window = windowOf(request, replayed)
    const sinceMs = isBan ? this.#strikesSinceMs(request) : startOf(atMs, window.lengthMs)
    const cause =
      beyondBy ??
      (isBan
        ? this.#causeOfBan(request, replayed, history, sinceMs)
        : this.#causeOfUse(request, replayed, history, sinceMs))
    const latest = isBan ? this.#bans : this.#strikes
    latest.set(keyId, { atMs, cause })
    const ahead = Number(replayed === 'admitted') - Number(logged === 'admitted')
    for (const counts of Object.values(history.counts)) counts.shift(ahead, cause)
    this.#record(request, replayed, cause)
  }

  /** Takes a line that came too late to be decided in order. */
  late(request: LoggedRequest): void {
    const { atMs, client, logged } = request
    const history = this.#clients.get(client)
    if (history === undefined) return
    history.lateMs = Math.max(history.lateMs, atMs)
    if (this.#isForeign(request))
      history.foreignRevisionMs = Math.max(history.foreignRevisionMs, atMs)
    if (logged !== 'admitted') return
    for (const counts of Object.values(history.counts))
      if (counts.isRunning(atMs)) counts.charge(request)
    const cause = this.#causeBeyond(request, history)
    if (cause !== undefined) this.#record(request, logged, cause)
  }

  #record({ atMs, client, logged }: LoggedRequest, replayed: Decided, cause: Cause): void {
    this.#differs[cause]++
    const at = new Date(Math.floor(atMs)).toISOString()
    const first = this.#examples.get(cause)
    if (first === undefined || at < first.at)
      this.#examples.set(cause, { cause, at, client, logged, replayed })
  }

  report(): Comparison {
    return { same: this.#same, differs: this.#differs, examples: [...this.#examples.values()] }
  }

  #note(request: LoggedRequest): History {
    const { atMs, client, process, logged, isDegraded } = request
    let history = this.#clients.get(client)
    if (history === undefined) this.#clients.set(client, (history = newHistory(process)))
    for (const counts of Object.values(history.counts)) {
      counts.moveTo(atMs)
      if (history.process !== process) counts.isShared = true
      if (logged === 'admitted') counts.charge(request)
    }
    history.process = process
    if (isDegraded) history.degradedMs = atMs
    if (this.#isForeign(request)) history.foreignRevisionMs = atMs
    return history
  }

  #isForeign({ revision }: LoggedRequest): boolean {
    return revision !== this.#options.revision
  }

  /** Cause of an admission beyond a limit by the log's own count, this request included; undefined: it is not. */
  #causeBeyond(request: LoggedRequest, history: History): Cause | undefined {
    const { atMs, client, isDegraded, logged, refundedAtMs } = request
    const beyond = Object.values(history.counts).findLast((counts) => counts.isBeyond(request))
    if (beyond === undefined || logged !== 'admitted' || !Number.isNaN(refundedAtMs))
      return undefined
    const { name, lengthMs } = beyond.window
    const sinceMs = startOf(atMs, lengthMs)
    const reset = this.facts.during(`reset of ${name} ${client}`, sinceMs, atMs)
    const isOther = history.foreignRevisionMs >= sinceMs || reset !== undefined
    if (isOther || isDegraded || !beyond.isBeyondStore(request)) return 'limits'
    return this.#hasForgotten(sinceMs, atMs) ? 'missing' : 'unexplained'
  }

  #causeOfUse(request: LoggedRequest, replayed: Decided, history: History, sinceMs: number): Cause {
    const { atMs, client, logged } = request
    const reset = this.facts.during(`reset of ${replayed} ${client}`, sinceMs, atMs)
    const isLost = this.#wasStoreAway(history, sinceMs, atMs)
    if (history.foreignRevisionMs >= sinceMs || reset || isLost) return 'limits'
    if (this.#hasHole(history, sinceMs, atMs)) return 'missing'
    const counts = history.counts[windowOf(request, replayed).name]
    const isUsedBefore = this.usedBefore.has(client)
    // A difference may only follow from earlier ones.
    const isFollowing = logged === 'admitted' ? counts.ahead > 0 : counts.ahead < 0
    const followed = isFollowing ? counts.cause : undefined
    const isUsedUp = leftFields.some((field) => request[field] === 0)
    const byOthers = counts.isShared && (replayed === 'admitted' ? isUsedUp : logged !== 'admitted')
    // If the log begins with the start, the use in a client's first line may be what others held, or requests whose lines come later.
    const isHeld = counts.isShared && isUsedBefore
    if (this.#isFromStart && (byOthers || isHeld)) return followed ?? 'limits'
    if (isUsedBefore && this.#firstMs > sinceMs) return 'missing'
    return followed ?? (byOthers ? 'limits' : 'unexplained')
  }

  #causeOfBan(request: LoggedRequest, replayed: Decided, history: History, sinceMs: number): Cause {
    const { atMs, logged, keyId } = request
    if (history.foreignRevisionMs >= sinceMs) return 'limits'
    if (this.facts.during(`operator ban ${keyId}`, sinceMs, atMs)) return 'strikes'
    const { forgetAfterMs } = this.#options.bans
    const ban = this.facts.during(`ban ${keyId}`, atMs, atMs)
    const strike = this.#strikes.get(keyId)
    if (strike && strike.cause !== 'unexplained' && strike.atMs >= sinceMs) return strike.cause
    // Earlier bans make a ban for strikes longer, until they are forgotten.
    const before = replayed === 'ban' || ban !== undefined ? this.#bans.get(keyId) : undefined
    if (before && before.cause !== 'unexplained' && before.atMs >= atMs - forgetAfterMs)
      return before.cause
    if (this.#wasStoreAway(history, sinceMs, atMs)) return 'strikes'
    if (this.#hasHole(history, sinceMs, atMs)) return 'missing'
    // In the middle of a ban, other processes refuse the key, too.
    const isNews =
      ban !== undefined &&
      (logged === 'ban' || atMs <= ban.fromMs + 2 * NEWS_MS || atMs >= ban.untilMs - 2 * NEWS_MS)
    if (isNews && Object.values(history.counts).some(({ isShared }) => isShared)) return 'strikes'
    const isCut =
      logged === 'ban'
        ? !this.isUnusedBefore && this.#firstMs > atMs - forgetAfterMs
        : !this.#isFromStart && this.#firstMs > sinceMs
    return isCut ? 'missing' : 'unexplained'
  }

  #hasHole({ lateMs }: History, sinceMs: number, atMs: number): boolean {
    const gap = this.facts.during('gap', sinceMs, atMs)
    return gap !== undefined || lateMs >= sinceMs || this.#hasForgotten(sinceMs, atMs)
  }

  #wasStoreAway({ degradedMs }: History, sinceMs: number, atMs: number): boolean {
    return degradedMs >= sinceMs || this.facts.during('outage', sinceMs, atMs) !== undefined
  }

  /** Whether a restart has lost all use between these times; the first start comes before the first request. */
  #hasForgotten(sinceMs: number, atMs: number): boolean {
    const afterFirstMs = Math.max(sinceMs, this.#firstMs + 1)
    return this.#options.forgets && this.facts.during('start', afterFirstMs, atMs) !== undefined
  }

  /** Earliest time of the strikes that a ban depends on. */
  #strikesSinceMs({ keyId, atMs }: LoggedRequest): number {
    const ban = this.facts.during(`ban ${keyId}`, atMs, atMs)
    return Math.min(ban?.fromMs ?? atMs, atMs) - this.#options.bans.withinMs
  }
}

const newHistory = (process: string) => ({
  counts: perWindow((window) => new WindowCounts(window)),
  /** The process that decided last. */
  process,
  /** Unix time in ms of the last decision without the store, of the last one by another revision, and of the last whose line came late. */
  degradedMs: -Infinity,
  foreignRevisionMs: -Infinity,
  lateMs: -Infinity,
})

/** The longest window that has refused the request in the log or the replay; the shortest one if none has. */
const windowOf = ({ logged }: LoggedRequest, replayed: Decided): FixedWindow =>
  windows.findLast(({ name }) => name === logged || name === replayed) ?? windows[0]
