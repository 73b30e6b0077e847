/** The form of a ban in stores and in messages between processes. */
import { MAX_REASON_LENGTH, type BanRecord } from './bans.ts'

/**
 * Returns the stored form, compact JSON. It leaves out undefined members, so that a ban without acts of operators looks as
 * older releases wrote it.
 */
export function formatBan({ untilMs, count, startedMs, epochMs, by, reason }: BanRecord): string {
  return JSON.stringify({ untilMs, count, startedMs, epochMs, by, reason })
}

/** Reads the stored form; undefined for anything else. */
export function parseBan(text: string): BanRecord | undefined {
  try {
    return toBan(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** Makes a ban from data of unknown origin; undefined unless its members have their types and fit together. */
export function toBan(value: unknown): BanRecord | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { untilMs, count, startedMs, epochMs, by, reason } = value as Record<string, unknown>
  if (!isWhole(untilMs) || !isWhole(count) || !isWhole(startedMs)) return undefined
  if (epochMs !== undefined && !isWhole(epochMs)) return undefined
  if ((by !== undefined && by !== 'operator') || !isReason(reason)) return undefined
  if (startedMs > untilMs || count < (by === 'operator' ? 0 : 1)) return undefined
  return Object.freeze({ untilMs, count, startedMs, epochMs, by, reason })
}

const isReason = (value: unknown): value is string | undefined =>
  value === undefined || (typeof value === 'string' && value.length <= MAX_REASON_LENGTH)

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
