/**
 * Where the log's own answers are not the replay's, and why: a cause is given only where facts in the log show it, of the client and
 * the windows that the answer depends on. What the log itself counts beyond a limit is never what others held of it.
 */
import type { LogNote } from '../log-files/batch.ts'
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'
import { Facts, NEWS_MS, type FactsOptions } from './facts.ts'
import type { LoggedRequest } from './logged.ts'
import type { Decided } from './policy.ts'
import type { Cause, ReplayReport } from './report.ts'
import { WindowCounts } from './window-counts.ts'

type Log = NonNullable<ReplayReport['log']>

/** Unexplained so far: a line that comes late may show what it has hung on since then. */
interface Waiting {
  readonly request: LoggedRequest
  readonly replayed: Decided
  readonly isBan: boolean
  readonly sinceMs: number
}

interface Known {
  readonly minute: WindowCounts
  readonly day: WindowCounts
  /** Who decided last. */
  process: string
  /** When it was last decided so, Unix time in ms. */
  degradedMs: number
  foreignRevisionMs: number
  readonly waiting: Waiting[]
}

/** The latest difference of a key in its bans, or in the refusals that are its strikes: those that hang on it have its cause. */
interface Latest {
  readonly atMs: number
  readonly cause: Cause
}

/** That wait, in all and of one client. Beyond that they are unexplained. */
const MOST_WAITING = 50_000
const MOST_OF_ONE = 1_000

export class Differences {
  readonly #options: FactsOptions
  readonly #facts: Facts
  readonly #known = new Map<string, Known>()
  readonly #strikes = new Map<string, Latest>()
  readonly #bans = new Map<string, Latest>()
  readonly #examples = new Map<Cause, Log['examples'][number]>()
  readonly #differs = { limits: 0, strikes: 0, missing: 0, unexplained: 0 }
  /** Who had used something when the log begins, Unix time in ms. */
  readonly #usedBefore = new Map<string, number>()
  #firstMs = Infinity
  #same = 0
  #waiting = 0

  constructor(options: FactsOptions) {
    this.#options = options
    this.#facts = new Facts(options)
  }

  /** As soon as it was read: what explains an answer may be logged a little later. */
  hear(note: LogNote): void {
    this.#facts.hear(note)
  }

  /** Whether the log begins with the start of a gateway that remembers nothing: nothing was used. */
  get isFromNothing(): boolean {
    return this.#options.forgets && this.#isFromStart
  }

  get #isFromStart(): boolean {
    return this.#facts.hasStartedBy(this.#firstMs)
  }

  /** Of a client the log tells of use before its beginning. */
  usedBefore(client: string, firstMs: number): void {
    this.#usedBefore.set(client, firstMs)
  }

  /** For each request of a known client, in order. */
  compare(request: LoggedRequest, replayed: Decided): void {
    const { atMs, keyId, logged } = request
    this.#firstMs = Math.min(this.#firstMs, atMs)
    const known = this.#note(request)
    const beyondBy = isBeyond(request, known) ? this.#causeBeyond(request, known) : undefined
    if (logged === replayed && beyondBy !== 'unexplained') {
      if (replayed !== 'free') this.#same++
      return
    }
    const isBan = logged === 'ban' || replayed === 'ban'
    const sinceMs = isBan ? this.#strikesSinceMs(request) : windowSinceMs(request, replayed)
    const cause =
      beyondBy ??
      (isBan
        ? this.#causeOfBan(request, replayed, known, sinceMs)
        : this.#causeOfUse(request, replayed, known, sinceMs))
    const latest = isBan ? this.#bans : this.#strikes
    latest.set(keyId, { atMs, cause })
    const ahead = Number(replayed === 'admitted') - Number(logged === 'admitted')
    known.minute.shift(ahead, cause)
    known.day.shift(ahead, cause)
    const mayWait = beyondBy === undefined && this.#waiting < MOST_WAITING
    if (cause === 'unexplained' && mayWait && known.waiting.length < MOST_OF_ONE) {
      this.#waiting++
      known.waiting.push({ request, replayed, isBan, sinceMs })
    } else this.#tell(request, replayed, cause)
  }

  /** Of a line that came too late to be decided in its place. Whether the replay has let in another one for it. */
  late(request: LoggedRequest): boolean {
    const { atMs, keyId, logged } = request
    const known = this.#known.get(request.client)
    if (known === undefined) return false
    if (this.#isForeign(request)) known.foreignRevisionMs = Math.max(known.foreignRevisionMs, atMs)
    if (logged === 'minute' || logged === 'day') this.#explainBans(known, keyId, atMs)
    if (logged !== 'admitted') return false
    const refused = known.waiting.find(
      (one) => !one.isBan && one.request.logged !== 'admitted' && isDuring(one, request),
    )
    if (refused !== undefined) {
      this.#explain(known, refused)
      this.#explainBans(known, refused.request.keyId, refused.request.atMs)
    }
    for (const counts of [known.minute, known.day]) {
      if (!counts.isRunning(atMs)) continue
      counts.charge(request)
      // The replay charged the other one in its stead.
      if (refused) counts.shift(Number.isNaN(request.refundedAtMs) ? -1 : 0, 'missing')
    }
    if (isBeyond(request, known)) this.#tell(request, logged, this.#causeBeyond(request, known))
    return refused !== undefined
  }

  /** What hangs on a strike that the replay lacks. */
  #explainBans(known: Known, keyId: string, strikeMs: number): void {
    this.#strikes.set(keyId, { atMs: strikeMs, cause: 'missing' })
    for (const one of known.waiting.filter(({ isBan }) => isBan)) {
      const { atMs, keyId: its } = one.request
      if (its === keyId && strikeMs >= one.sinceMs && strikeMs <= atMs) this.#explain(known, one)
    }
  }

  #explain({ waiting }: Known, one: Waiting): void {
    this.#waiting--
    waiting.splice(waiting.indexOf(one), 1)
    this.#tell(one.request, one.replayed, 'missing')
  }

  #tell({ atMs, client, logged }: LoggedRequest, replayed: Decided, cause: Cause): void {
    this.#differs[cause]++
    const at = new Date(Math.floor(atMs)).toISOString()
    const first = this.#examples.get(cause)
    if (first === undefined || at < first.at)
      this.#examples.set(cause, { cause, at, client, logged, replayed })
  }

  report(): Log {
    for (const { waiting } of this.#known.values())
      for (const { request, replayed } of waiting.splice(0))
        this.#tell(request, replayed, 'unexplained')
    return { same: this.#same, differs: this.#differs, examples: [...this.#examples.values()] }
  }

  #note(request: LoggedRequest): Known {
    const { atMs, client, process, logged, isDegraded } = request
    let known = this.#known.get(client)
    if (known === undefined) this.#known.set(client, (known = newKnown(process)))
    for (const counts of [known.minute, known.day]) {
      counts.moveTo(atMs)
      if (known.process !== process) counts.isShared = true
      if (logged === 'admitted') counts.charge(request)
    }
    known.process = process
    if (isDegraded) known.degradedMs = atMs
    if (this.#isForeign(request)) known.foreignRevisionMs = atMs
    return known
  }

  #isForeign({ revision }: LoggedRequest): boolean {
    const revisions = revision === '' ? [...this.#facts.taken] : [revision]
    return revisions.some((one) => one !== this.#options.revision)
  }

  /** Of one that was let in when the log itself counts as many as the limit. */
  #causeBeyond(request: LoggedRequest, known: Known): Cause {
    const { atMs, client, isDegraded } = request
    const window = known.day.isBeyond(request) ? 'day' : 'minute'
    const sinceMs = startOf(atMs, window === 'day' ? DAY_MS : MINUTE_MS)
    const isOther =
      known.foreignRevisionMs >= sinceMs || this.#facts.isReset(client, window, sinceMs, atMs)
    if (isOther || isDegraded || !known[window].isBeyondStore(request)) return 'limits'
    return this.#facts.hasForgotten(this.#firstMs, sinceMs, atMs) ? 'missing' : 'unexplained'
  }

  #causeOfUse(request: LoggedRequest, replayed: Decided, known: Known, sinceMs: number): Cause {
    const { atMs, client, logged, isDegraded, isUsedUp } = request
    const isRefusedNow = replayed === 'minute' || replayed === 'day'
    const isReset = isRefusedNow && this.#facts.isReset(client, replayed, sinceMs, atMs)
    const isLost = known.degradedMs >= sinceMs || this.#facts.wasLost(sinceMs, atMs)
    if (known.foreignRevisionMs >= sinceMs || isReset || isDegraded || isLost) return 'limits'
    if (this.#hasHole(sinceMs, atMs)) return 'missing'
    const counts = isOfDay(request, replayed) ? known.day : known.minute
    const usedMs = this.#usedBefore.get(client) ?? -Infinity
    const isFollowing = logged === 'admitted' ? counts.ahead > 0 : counts.ahead < 0
    const byOthers = counts.isShared && (replayed === 'admitted' ? isUsedUp : logged !== 'admitted')
    // If the log begins with the start of all, what a first line says was used may be what others held, or the use of later lines.
    const isHeld = counts.isShared && usedMs > -Infinity
    if (this.#isFromStart && (byOthers || isHeld)) return counts.followed(isFollowing) ?? 'limits'
    if (usedMs > sinceMs) return 'missing'
    return counts.followed(isFollowing) ?? (byOthers ? 'limits' : 'unexplained')
  }

  #causeOfBan(request: LoggedRequest, replayed: Decided, known: Known, sinceMs: number): Cause {
    const { atMs, logged, keyId, isDegraded } = request
    if (known.foreignRevisionMs >= sinceMs) return 'limits'
    if (this.#facts.isActedOn(keyId, sinceMs, atMs)) return 'strikes'
    const { forgetAfterMs } = this.#options.bans
    const ban = this.#facts.banOf(keyId, atMs)
    const strike = this.#strikes.get(keyId)
    if (strike && strike.cause !== 'unexplained' && strike.atMs >= sinceMs) return strike.cause
    // A ban for strikes is longer by those before it, until they are forgotten.
    const before = replayed === 'ban' || ban !== undefined ? this.#bans.get(keyId) : undefined
    if (before && before.cause !== 'unexplained' && before.atMs >= atMs - forgetAfterMs)
      return before.cause
    const isLost = known.degradedMs >= sinceMs || this.#facts.wasLost(sinceMs, atMs)
    if (isDegraded || isLost) return 'strikes'
    if (this.#hasHole(sinceMs, atMs)) return 'missing'
    // In the midst of a ban others refuse the key too.
    const isNews =
      ban !== undefined &&
      (logged === 'ban' || atMs <= ban.fromMs + 2 * NEWS_MS || atMs >= ban.untilMs - 2 * NEWS_MS)
    if (isNews && known.day.isShared) return 'strikes'
    const isCut =
      logged === 'ban'
        ? !this.isFromNothing && this.#firstMs > atMs - forgetAfterMs
        : !this.#isFromStart && this.#firstMs > sinceMs
    return isCut ? 'missing' : 'unexplained'
  }

  #hasHole(sinceMs: number, atMs: number): boolean {
    const hasForgotten = this.#facts.hasForgotten(this.#firstMs, sinceMs, atMs)
    return hasForgotten || !this.#facts.isWhole(sinceMs, atMs)
  }

  /** A ban depends on the strikes before it. */
  #strikesSinceMs({ keyId, atMs }: LoggedRequest): number {
    const ban = this.#facts.banOf(keyId, atMs)
    return Math.min(ban?.fromMs ?? atMs, atMs) - this.#options.bans.withinMs
  }
}

const newKnown = (process: string): Known => ({
  minute: new WindowCounts(MINUTE_MS),
  day: new WindowCounts(DAY_MS),
  process,
  degradedMs: -Infinity,
  foreignRevisionMs: -Infinity,
  waiting: [],
})

const startOf = (atMs: number, lengthMs: number): number => Math.floor(atMs / lengthMs) * lengthMs

const isOfDay = ({ logged }: LoggedRequest, replayed: Decided): boolean =>
  logged === 'day' || replayed === 'day'

const windowSinceMs = (request: LoggedRequest, replayed: Decided): number =>
  startOf(request.atMs, isOfDay(request, replayed) ? DAY_MS : MINUTE_MS)

/** Whether the log itself counts more than a limit with this request. */
const isBeyond = (request: LoggedRequest, { minute, day }: Known): boolean =>
  request.logged === 'admitted' &&
  Number.isNaN(request.refundedAtMs) &&
  (day.isBeyond(request) || minute.isBeyond(request))

/** Whether a late charge counted when this one was refused. */
const isDuring = ({ request, sinceMs }: Waiting, late: LoggedRequest): boolean =>
  late.atMs >= sinceMs && request.atMs >= late.atMs && !(request.atMs > late.refundedAtMs)
