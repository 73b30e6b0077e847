/** A ban as stores keep it and processes tell each other of it. */
import { MAX_REASON_LENGTH, type BanRecord } from './bans.ts'

/** The stored form: compact JSON, without what is undefined, as releases before there were acts of operators wrote it. */
export function formatBan({ untilMs, count, startedMs, epochMs, by, reason }: BanRecord): string {
  return JSON.stringify({ untilMs, count, startedMs, epochMs, by, reason })
}

/** Reads the stored form; undefined for anything that is not a ban. */
export function parseBan(text: string): BanRecord | undefined {
  try {
    return toBan(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** A ban from data of unknown origin; undefined unless its members are of their types and fit together. */
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
