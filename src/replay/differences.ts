/**
 * Where the log's own answers are not the replay's, and why: a cause is given only where facts in the log show it, of the client and
 * the windows that the answer depends on. What the log itself counts beyond a limit is never the work of leases.
 */
import type { LogNote } from '../log-files/batch.ts'
import { DAY_MS, MINUTE_MS } from '../rules/time.ts'
import { Facts, NEWS_MS, pushTo, type BanSpan, type FactsOptions } from './facts.ts'
import { decidedBy, isBeyond, newKnown, type Known } from './known-client.ts'
import { LateLines } from './late.ts'
import type { LoggedRequest } from './logged.ts'
import type { Decided } from './policy.ts'
import type { Cause, ReplayReport } from './report.ts'
import type { Told, WindowCounts } from './window-counts.ts'

export interface DifferencesOptions extends FactsOptions {
  readonly hasRedis: boolean
}

export class Differences {
  readonly #options: DifferencesOptions
  readonly #facts: Facts
  readonly #known = new Map<string, Known>()
  readonly #late = new LateLines()
  readonly #examples = new Map<Cause, Told['example']>()
  readonly #differs: Record<Cause, number> = {
    revision: 0,
    outage: 0,
    leases: 0,
    hosts: 0,
    strikes: 0,
    incomplete: 0,
    late: 0,
    operator: 0,
    unexplained: 0,
  }
  /** Keys that a line has let through, or refused for use. */
  readonly #unbanned = new Set<string>()
  /** Of a key: its latest refusals, as many as make a ban. Unix time in ms. */
  readonly #strikes = new Map<string, number[]>()
  /** Who had used something when the log begins, Unix time in ms. */
  readonly #usedBefore = new Map<string, number>()
  #firstMs = Infinity
  #same = 0

  constructor(options: DifferencesOptions) {
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
    const { atMs, logged } = request
    this.#firstMs = Math.min(this.#firstMs, atMs)
    const known = this.#note(request)
    const beyondBy = isBeyond(request, known) ? this.#causeBeyond(request, known) : undefined
    if (logged === replayed && beyondBy !== 'unexplained') {
      if (replayed !== 'free') this.#same++
      return
    }
    const cause = beyondBy ?? this.#causeOf(request, replayed, known)
    const ahead = Number(replayed === 'admitted') - Number(logged === 'admitted')
    known.minute.shift(ahead, cause)
    known.day.shift(ahead, cause)
    const told = toldOf(request, replayed, cause)
    const counts = logged === 'minute' || logged === 'day' ? known[logged] : undefined
    if (counts === undefined || replayed !== 'admitted') this.#tellOrWait([told])
    else if (cause === 'leases' || cause === 'hosts' || cause === 'strikes') counts.hold(told)
    else this.#tellOrWait([{ ...told, missing: counts.missing(request) }])
  }

  /** Of a line that came too late to be decided in its place. Whether the replay has let in another one for it. */
  late(request: LoggedRequest): boolean {
    const { atMs, keyId, logged } = request
    const known = this.#known.get(request.client)
    if (known === undefined) return false
    const { explained, isReplaced } = this.#late.come(request)
    this.#tell(explained, 'late')
    this.#unbanned.add(keyId)
    if (this.#isForeign(request)) known.foreignRevisionMs = Math.max(known.foreignRevisionMs, atMs)
    if (logged !== 'admitted') return false
    for (const counts of [known.minute, known.day]) {
      if (!counts.isRunning(atMs)) continue
      counts.charge(request)
      if (isReplaced) counts.replaced(request)
    }
    if (isBeyond(request, known))
      this.#tell([toldOf(request, logged, this.#causeBeyond(request, known))])
    return isReplaced
  }

  #tell(told: readonly Told[], as?: Cause): void {
    for (const { example, count } of told) {
      const cause = as ?? example.cause
      this.#differs[cause] += count
      const known = this.#examples.get(cause)
      if (known === undefined || example.at < known.at)
        this.#examples.set(cause, { ...example, cause })
    }
  }

  /** What nothing explains may be explained by a late line yet. */
  #tellOrWait(all: readonly Told[]): void {
    for (const told of all) {
      const { example, request } = told
      const { atMs, keyId, logged } = request
      const { withinMs } = this.#options.bans
      const sinceMs = (this.#facts.banOf(keyId, atMs, withinMs)?.fromMs ?? atMs) - withinMs
      const isBan = logged === 'ban' || example.replayed === 'ban'
      if (example.cause !== 'unexplained') this.#tell([told])
      else if (isBan && this.#late.hasStruck(keyId, sinceMs, atMs)) this.#tell([told], 'late')
      else if (isBan ? !this.#late.keepBan(told, sinceMs) : !this.#late.keepRefusal(told))
        this.#tell([told])
    }
  }

  report(): NonNullable<ReplayReport['log']> {
    for (const { minute, day } of this.#known.values())
      this.#tell([...minute.settle(), ...day.settle()])
    this.#tell(this.#late.left())
    return { same: this.#same, differs: this.#differs, examples: [...this.#examples.values()] }
  }

  #note(request: LoggedRequest): Known {
    const { atMs, client, keyId, process, logged, isDegraded } = request
    let known = this.#known.get(client)
    if (known === undefined) this.#known.set(client, (known = newKnown(process)))
    this.#tellOrWait(known.minute.moveTo(atMs))
    this.#tellOrWait(known.day.moveTo(atMs))
    decidedBy(known, process)
    if (logged === 'admitted') {
      known.minute.charge(request)
      known.day.charge(request)
    }
    if (isDegraded) known.degradedMs = atMs
    if (this.#isForeign(request)) known.foreignRevisionMs = atMs
    if (logged !== 'ban') this.#unbanned.add(keyId)
    if (logged === 'minute' || logged === 'day')
      pushTo(this.#strikes, keyId, atMs, this.#options.bans.strikes)
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
    if (known.foreignRevisionMs >= sinceMs) return 'revision'
    if (this.#facts.isReset(client, window, sinceMs, atMs)) return 'operator'
    if (isDegraded || !known[window].isBeyondStore(request)) return 'outage'
    return this.#facts.hasForgotten(this.#firstMs, sinceMs, atMs) ? 'incomplete' : 'unexplained'
  }

  #causeOf(request: LoggedRequest, replayed: Decided, known: Known): Cause {
    const { atMs, logged, client, keyId, isDegraded } = request
    const isBan = logged === 'ban' || replayed === 'ban'
    const isDay = logged === 'day' || replayed === 'day'
    const ban = this.#facts.banOf(keyId, atMs)
    // A ban depends on the strikes before it.
    const strikesMs = Math.min(ban?.fromMs ?? atMs, atMs) - this.#options.bans.withinMs
    const sinceMs = isBan ? strikesMs : startOf(atMs, isDay ? DAY_MS : MINUTE_MS)
    if (known.foreignRevisionMs >= sinceMs) return 'revision'
    const isOperator = isBan
      ? this.#isBanOfOperator(request, ban, sinceMs)
      : this.#isUseOfOperator(request, replayed)
    if (isOperator) return 'operator'
    const isLost = known.degradedMs >= sinceMs || this.#facts.wasLost(sinceMs, atMs)
    if (isDegraded || isLost) return 'outage'
    const hasForgotten = this.#facts.hasForgotten(this.#firstMs, sinceMs, atMs)
    if (!this.#facts.isWhole(sinceMs, atMs) || hasForgotten) return 'incomplete'
    const counts = isDay ? known.day : known.minute
    const byOthers = isBan
      ? this.#causeOfBan(request, ban, known.day)
      : this.#causeOfUse(request, replayed, counts)
    if (byOthers !== 'unexplained' && this.#isFromStart) return byOthers
    // If the log begins with the start of all, what a first line says was used may be what others held, or the use of later lines.
    const isSeeded = this.#usedBefore.has(client) && counts.others !== undefined
    if (!isBan && isSeeded && this.#isFromStart) return this.#byProcesses(counts)
    const firstMs = isBan && !this.#isFromStart ? this.#firstMs : this.#usedBefore.get(client)
    if (firstMs !== undefined && firstMs > sinceMs) return 'incomplete'
    if (logged === 'ban' && (!this.#unbanned.has(keyId) || ban?.hasOlder)) return 'incomplete'
    return byOthers
  }

  /** A ban imposed or lifted, and fewer strikes for use set back: each explains what it leads to, and nothing else. */
  #isBanOfOperator(request: LoggedRequest, ban: BanSpan | undefined, sinceMs: number): boolean {
    const { atMs, logged, client, keyId } = request
    const minuteMs = startOf(sinceMs, MINUTE_MS)
    const isReset = (['minute', 'day'] as const).some((window) =>
      this.#facts.isReset(client, window, minuteMs, atMs),
    )
    if (logged !== 'ban') return isReset || this.#facts.isLifted(keyId, sinceMs, atMs)
    return this.#facts.isImposed(keyId, atMs) || (isReset && this.#isOfBan(request, ban))
  }

  /** What the replay refuses for use that was set back. */
  #isUseOfOperator({ atMs, client }: LoggedRequest, replayed: Decided): boolean {
    if (replayed !== 'minute' && replayed !== 'day') return false
    const sinceMs = startOf(atMs, replayed === 'day' ? DAY_MS : MINUTE_MS)
    return this.#facts.isReset(client, replayed, sinceMs, atMs)
  }

  /** Whether others may see this ban otherwise: in its midst they refuse the key too, and ever for refusals that the log has. */
  #isOfBan({ logged, keyId, atMs }: LoggedRequest, ban: BanSpan | undefined): boolean {
    if (ban === undefined) return false
    if (logged !== 'ban')
      return atMs <= ban.fromMs + 2 * NEWS_MS || atMs >= ban.untilMs - 2 * NEWS_MS
    const { strikes, withinMs } = this.#options.bans
    const struck = this.#strikes.get(keyId)?.filter((ms) => ms >= ban.fromMs - withinMs) ?? []
    return struck.length >= strikes
  }

  #causeOfBan(request: LoggedRequest, ban: BanSpan | undefined, day: WindowCounts): Cause {
    if (!this.#isOfBan(request, ban)) return 'unexplained'
    const others = this.#byProcesses(day)
    return others === 'leases' || others === 'hosts' ? 'strikes' : others
  }

  /** Others had what was left: the line says that nothing is, or the replay has charged what the log did not. */
  #causeOfUse({ logged, isUsedUp }: LoggedRequest, replayed: Decided, counts: WindowCounts): Cause {
    const isFollowing = logged === 'admitted' ? counts.ahead > 0 : counts.ahead < 0
    if (isFollowing && counts.cause !== undefined) return counts.cause
    const isOfUse = replayed === 'admitted' ? isUsedUp : logged !== 'admitted'
    return isOfUse ? this.#byProcesses(counts) : 'unexplained'
  }

  #byProcesses({ others }: WindowCounts): Cause {
    // Without a shared store there is one gateway at a time: another one was started, and knows less.
    if (others === 'hosts' && !this.#options.hasRedis) return 'incomplete'
    return others ?? 'unexplained'
  }
}

const startOf = (atMs: number, lengthMs: number): number => Math.floor(atMs / lengthMs) * lengthMs

function toldOf(request: LoggedRequest, replayed: Decided, cause: Cause): Told {
  const { atMs, client, logged } = request
  const at = new Date(Math.floor(atMs)).toISOString()
  return { example: { cause, at, client, logged, replayed }, request, count: 1, missing: Infinity }
}
