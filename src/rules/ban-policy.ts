/** When going on after a 429 is a strike, how many strikes ban, how long a ban lasts, and which of two bans of one key holds. */
import type { BansConfig } from '../config/config.ts'

/** The last ban of a key; kept after its end, until it is forgotten, as the next one depends on it. */
export interface BanRecord {
  /** Unix time in ms at which the ban ends. */
  readonly untilMs: number
  /** 1 for a first ban, 2 for the next within forgetAfter, and so on. */
  readonly count: number
  readonly startedMs: number
}

export function isBanned(ban: BanRecord, nowMs: number): boolean {
  return nowMs < ban.untilMs
}

/** forgetAfter runs from the end of the last ban: serving a long ban does not use up the memory of it. */
export function isForgotten(ban: BanRecord, nowMs: number, forgetAfterMs: number): boolean {
  return nowMs >= ban.untilMs + forgetAfterMs
}

/** The ban that begins now. Times in ms. */
export function nextBan(
  previous: BanRecord | undefined,
  nowMs: number,
  policy: BansConfig,
): BanRecord {
  const count =
    previous && !isForgotten(previous, nowMs, policy.forgetAfterMs) ? previous.count + 1 : 1
  const lastsMs = Math.min(policy.durationMs * policy.growth ** (count - 1), policy.maxDurationMs)
  return Object.freeze({ untilMs: Math.ceil(nowMs + lastsMs), count, startedMs: nowMs })
}

/**
 * What holds when two processes, or a process and the store, know different bans of one key: the one that ends last,
 * and never a smaller count than either, unless the earlier ban was forgotten when the later one began.
 * The order of the two does not matter, so all processes agree in the end whatever order the news comes in.
 */
export function mergeBans(one: BanRecord, other: BanRecord, forgetAfterMs: number): BanRecord {
  const later = isLater(other, one) ? other : one
  const earlier = later === one ? other : one
  if (earlier.count <= later.count || isForgotten(earlier, later.startedMs, forgetAfterMs))
    return later
  return Object.freeze({ ...later, count: earlier.count })
}

function isLater(ban: BanRecord, than: BanRecord): boolean {
  return ban.untilMs === than.untilMs ? ban.startedMs > than.startedMs : ban.untilMs > than.untilMs
}

export function isSameBan(one: BanRecord, other: BanRecord): boolean {
  return (
    one.untilMs === other.untilMs && one.count === other.count && one.startedMs === other.startedMs
  )
}

/** A refused request is a strike once the key has had the grace period to notice its first 429 of the window. */
export function isStrike(refusal: {
  readonly nowMs: number
  readonly firstRefusedAtMs: number
  readonly graceMs: number
}): boolean {
  return refusal.nowMs - refusal.firstRefusedAtMs > refusal.graceMs
}

/**
 * How many strikes ban a key whose first one was so long ago: `strikes` at once, and evenly up to half as many again over
 * `within`.
 *
 * Many clients that back off begin as a burst and then thin out: each tries at 0, 1, 3, 7, 15 and 31 s, and anew when the next
 * minute gives it quota. Eight such loops come to 48 strikes in a minute, to 72 where two bursts fall into one `within`. What
 * hammers goes on at its pace: two requests a second come to 118. One number that lets all of the first pass bans the second
 * late, and a flood too; so it rises with time, 60 at first and 90 after a minute.
 */
export function strikesUntilBan(
  forMs: number,
  { strikes, withinMs }: Pick<BansConfig, 'strikes' | 'withinMs'>,
): number {
  return Math.floor(strikes * (1 + Math.min(forMs / withinMs, 1) / 2))
}

/** Whether the strikes of a key, counted for so long, ban it. */
export function isBanEarned(
  { total, forMs }: { readonly total: number; readonly forMs: number },
  policy: Pick<BansConfig, 'strikes' | 'withinMs'>,
): boolean {
  return total >= strikesUntilBan(forMs, policy)
}

/**
 * Whether two window ends (Unix time in ms) name one window. Ends computed from a wait in whole seconds
 * differ by up to a second or two, while the shortest windows are a minute apart.
 */
export function isSameWindow(oneEndMs: number, otherEndMs: number): boolean {
  return Math.abs(oneEndMs - otherEndMs) < 5_000
}

/** The stored form: compact JSON. */
export function formatBan(ban: BanRecord): string {
  return JSON.stringify({ untilMs: ban.untilMs, count: ban.count, startedMs: ban.startedMs })
}

/** Reads the stored form; undefined for anything that is not a ban. */
export function parseBan(text: string): BanRecord | undefined {
  try {
    return toBan(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** A ban from data of unknown origin; undefined unless all three members are whole numbers that fit together. */
export function toBan(value: unknown): BanRecord | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { untilMs, count, startedMs } = value as Record<string, unknown>
  if (!isWhole(untilMs) || !isWhole(count) || !isWhole(startedMs)) return undefined
  if (count < 1 || startedMs > untilMs) return undefined
  return Object.freeze({ untilMs, count, startedMs })
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
