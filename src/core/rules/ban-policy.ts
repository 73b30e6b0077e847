/** Decides what strikes and operators do to a ban, and which of two bans of one key holds. */
import type { BanRecord } from '../../state/bans.ts'
import type { BansConfig } from '../../config/config.ts'
import { DAY_MS } from '../../config/time.ts'

export function isBanned({ untilMs, startedMs }: BanRecord, nowMs: number): boolean {
  // A lift is never a ban, even by a clock behind that of its author.
  return nowMs < untilMs && startedMs < untilMs
}

/** Whether the record is no ban, but the end of one by an operator. */
export function isLift({ by, untilMs, startedMs }: BanRecord): boolean {
  return by === 'operator' && untilMs === startedMs
}

/** The end of the ban as every answer gives it: Unix time in seconds, rounded up. */
export const endsAtSeconds = ({ untilMs }: Pick<BanRecord, 'untilMs'>): number =>
  Math.ceil(untilMs / 1000)

/** forgetAfter runs from the end of the last ban: serving a long ban does not use up the memory of it. */
export function isForgotten(ban: BanRecord, nowMs: number, forgetAfterMs: number): boolean {
  // A lift is kept for a day even where bans are forgotten sooner: a process that does not know of it would undo it.
  const keptMs = isLift(ban) ? Math.max(forgetAfterMs, DAY_MS) : forgetAfterMs
  return nowMs >= ban.untilMs + keptMs
}

/** The ban for strikes that begins now. */
export function nextBan(
  previous: BanRecord | undefined,
  nowMs: number,
  policy: BansConfig,
  reason?: string,
): BanRecord {
  const count = countOf(previous, nowMs, policy.forgetAfterMs) + 1
  const lastsMs = Math.min(policy.durationMs * policy.growth ** (count - 1), policy.maxDurationMs)
  return Object.freeze({
    untilMs: Math.ceil(nowMs + lastsMs),
    count,
    startedMs: nowMs,
    epochMs: previous?.epochMs,
    reason,
  })
}

/** The ban that an operator imposes now, in place of any other. It does not lengthen later bans for strikes. */
export function imposedBan(
  known: BanRecord | undefined,
  { forMs, reason }: { readonly forMs: number; readonly reason: string | undefined },
  { nowMs, forgetAfterMs }: { readonly nowMs: number; readonly forgetAfterMs: number },
): BanRecord {
  return Object.freeze({
    untilMs: nowMs + forMs,
    count: countOf(known, nowMs, forgetAfterMs),
    startedMs: nowMs,
    epochMs: nextEpochMs(known, nowMs),
    by: 'operator',
    reason,
  })
}

/** The record that replaces a ban which an operator lifts now; it does not lengthen later bans. */
export function liftOf(known: BanRecord, nowMs: number): BanRecord {
  const epochMs = nextEpochMs(known, nowMs)
  return Object.freeze({ untilMs: nowMs, count: 0, startedMs: nowMs, epochMs, by: 'operator' })
}

function countOf(ban: BanRecord | undefined, nowMs: number, forgetAfterMs: number): number {
  return ban === undefined || isForgotten(ban, nowMs, forgetAfterMs) ? 0 : ban.count
}

/** An epoch above the known one, even where clocks differ. */
function nextEpochMs(known: BanRecord | undefined, nowMs: number): number {
  return Math.max(nowMs, (known?.epochMs ?? 0) + 1)
}

/**
 * Decides which ban of a key holds where two processes, or a process and the store, know different ones. The ban of the later
 * act of an operator holds, so that a process that does not know of a lift cannot undo it. After the same acts, the ban that
 * ends last holds, with the larger of both counts. A ban that was forgotten when the other began does not count.
 * The order of the two does not matter, so all processes agree in the end, in whatever order they receive the bans.
 */
export function mergeBans(one: BanRecord, other: BanRecord, forgetAfterMs: number): BanRecord {
  const [oneMs, otherMs] = [one.epochMs ?? 0, other.epochMs ?? 0]
  if (oneMs !== otherMs) {
    const [newer, older] = oneMs > otherMs ? [one, other] : [other, one]
    return isForgotten(newer, older.startedMs, forgetAfterMs) ? older : newer
  }
  const later = isLater(other, one) ? other : one
  const earlier = later === one ? other : one
  if (earlier.count <= later.count || isForgotten(earlier, later.startedMs, forgetAfterMs))
    return later
  return Object.freeze({ ...later, count: earlier.count })
}

function isLater(ban: BanRecord, than: BanRecord): boolean {
  if (ban.untilMs !== than.untilMs) return ban.untilMs > than.untilMs
  if (ban.startedMs !== than.startedMs) return ban.startedMs > than.startedMs
  // Two acts within one millisecond differ in these alone.
  return `${ban.by} ${ban.reason}` > `${than.by} ${than.reason}`
}

/** Compares everything but author and reason. */
export function isSameBan(one: BanRecord, other: BanRecord): boolean {
  return (
    one.untilMs === other.untilMs &&
    one.count === other.count &&
    one.startedMs === other.startedMs &&
    one.epochMs === other.epochMs
  )
}

/**
 * Whether so many strikes during `bans.within`, however they are spread, ban a key.
 *
 * Many clients that back off begin as a burst and then thin out: each tries at 0, 1, 3, 7, 15 and 31 s, and anew when the next
 * minute gives it quota. Eight such loops come to 48 strikes in a minute, to 72 where two bursts fall into one `bans.within`; the
 * default of 90 lets them pass. A client that hammers keeps its pace: two requests a second come to 118.
 */
export function isBanEarned(total: number, { strikes }: Pick<BansConfig, 'strikes'>): boolean {
  return total >= strikes
}

/**
 * Whether two window ends (Unix time in ms) name one window. Ends computed from a wait in whole seconds
 * differ by up to a second or two, while the shortest windows are a minute apart.
 */
export function isSameWindow(oneEndMs: number, otherEndMs: number): boolean {
  return Math.abs(oneEndMs - otherEndMs) < 5_000
}
