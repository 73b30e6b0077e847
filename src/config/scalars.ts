/** Readers of single values: text in, the typed value or a fault with its remedy out. No reader repeats the text it refuses. */
import { availableParallelism } from 'node:os'
import { formatDurationMs, formatSizeBytes, parseDurationMs, parseSizeBytes } from './durations.ts'

/** `fault` reads `fault; remedy`. */
export type Reading<T> = { readonly value: T } | { readonly fault: string }
export type Reader<T> = (text: string) => Reading<T>

/** Inclusive, in the unit of the value. */
export interface Bounds {
  readonly min: number
  readonly max: number
}

/** More than any machine's cores; each worker costs some 80 MB. */
const MAX_WORKERS = 256

const within = (value: number, { min, max }: Bounds): boolean => value >= min && value <= max

/** Digits only: 1e3, 0x10, 1_000 and .inf are other spellings of numbers and are refused. */
export const integer =
  (bounds: Bounds): Reader<number> =>
  (text) => {
    if (!/^-?(0|[1-9][0-9]*)$/.test(text)) {
      return { fault: 'is not a whole number; write digits only, such as 1000' }
    }
    const value = Number(text)
    if (within(value, bounds)) return { value }
    return { fault: `is out of range; write a whole number from ${bounds.min} to ${bounds.max}` }
  }

/** Processes that serve requests: a number, or as many as this process may use cores. */
export const workers: Reader<number> = (text) => {
  if (text === 'auto') return { value: Math.min(availableParallelism(), MAX_WORKERS) }
  const value = /^[1-9][0-9]*$/.test(text) ? Number(text) : 0
  if (within(value, { min: 1, max: MAX_WORKERS })) return { value }
  return { fault: `is not a number of processes; write 1 to ${MAX_WORKERS}, or auto` }
}

export const decimal =
  (bounds: Bounds): Reader<number> =>
  (text) => {
    if (!/^-?(0|[1-9][0-9]*)(\.[0-9]+)?$/.test(text)) {
      return { fault: 'is not a number; write digits with an optional fraction, such as 1.5' }
    }
    const value = Number(text)
    if (within(value, bounds)) return { value }
    return { fault: `is out of range; write a number from ${bounds.min} to ${bounds.max}` }
  }

/** Bounds in ms, value in ms. */
export const duration =
  (bounds: Bounds): Reader<number> =>
  (text) => {
    const value = parseDurationMs(text)
    if (value === undefined) {
      return {
        fault: 'is not a duration; write a whole number and a unit, such as 250ms, 15s or 2h',
      }
    }
    if (within(value, bounds)) return { value }
    const [min, max] = [formatDurationMs(bounds.min), formatDurationMs(bounds.max)]
    return { fault: `is out of range; write a duration from ${min} to ${max}` }
  }

/** Bounds in bytes, value in bytes. */
export const size =
  (bounds: Bounds): Reader<number> =>
  (text) => {
    const value = parseSizeBytes(text)
    if (value === undefined) {
      return {
        fault: 'is not a size; write a whole number and a unit, such as 512B, 16KiB or 1MiB',
      }
    }
    if (within(value, bounds)) return { value }
    const [min, max] = [formatSizeBytes(bounds.min), formatSizeBytes(bounds.max)]
    return { fault: `is out of range; write a size from ${min} to ${max}` }
  }

export const flag: Reader<boolean> = (text) =>
  text === 'true' || text === 'false'
    ? { value: text === 'true' }
    : { fault: 'is neither true nor false; write one of the two' }

export const choice =
  <const T extends string>(options: readonly T[]): Reader<T> =>
  (text) => {
    const value = options.find((option) => option === text)
    return value === undefined
      ? { fault: `is not a known choice; write one of ${options.join(', ')}` }
      : { value }
  }

/** Names that every plain object seems to have: refused, so that no table of names can be confused by them. */
export const isReservedName = (name: string): boolean => name in Object.prototype

export const reservedNameFault = 'is a reserved name; choose another one'

const pattern =
  (shape: RegExp, fault: string): Reader<string> =>
  (text) => {
    if (isReservedName(text)) return { fault: reservedNameFault }
    return shape.test(text) ? { value: text } : { fault }
  }

/** Of plans and routes: they become metric labels and header values. */
export const label = pattern(
  /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/,
  'is not a name; write a letter, then up to 63 letters, digits, "_", "." or "-"',
)

/** Of clients and keys: the exact text, `012345` stays `012345`. */
export const identifier = (maxLength: number): Reader<string> =>
  pattern(
    new RegExp(`^[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,${maxLength - 1}}$`),
    `is not an id; write up to ${maxLength} letters, digits or "_.:@+-", the first a letter or digit`,
  )

const plainKeyId = identifier(160)

/** Of keys: bans are kept under them, and under `jwt:` and the client's id for callers with tokens. */
export const keyIdentifier: Reader<string> = (text) =>
  text.startsWith('jwt:')
    ? { fault: 'starts with "jwt:", which names callers with tokens; choose another id' }
    : plainKeyId(text)

export const storePrefix = pattern(
  /^[A-Za-z0-9_.:-]{1,64}$/,
  'is not a key prefix; write 1 to 64 letters, digits or "_.:-"',
)

/** One line of visible text, such as an issuer, an audience or the name of a claim. */
export const line = pattern(
  /^[^\s\p{Cc}](?:[^\p{Cc}]{0,510}[^\s\p{Cc}])?$/u,
  'is empty, too long or not one line; write up to 512 characters without line breaks',
)

/** A path of the file system; empty is undefined. */
export const optionalFile: Reader<string | undefined> = (text) => {
  if (text === '') return { value: undefined }
  // SQLite takes these two for something else than a file, and a folder is none.
  const isFile = 'value' in line(text) && !/^:|^file:|\/$/.test(text)
  return isFile
    ? { value: text }
    : { fault: 'is not a file name; write a path on one line, or "" for none' }
}

/** SHA-256 in hex, either case; the value is lower case. */
export const sha256Digest: Reader<string> = (text) =>
  /^[0-9A-Fa-f]{64}$/.test(text)
    ? { value: text.toLowerCase() }
    : { fault: 'is not a SHA-256 digest; write 64 hex digits, as `tollgate keys new` prints them' }

const timestamp =
  /^(\d{4}-\d{2}-\d{2})(?:T(\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,3})?)?(?:Z|[+-](\d{2}):(\d{2})))?$/

/** A date (its first moment in UTC) or an ISO 8601 timestamp with its zone; the value is Unix time in ms. */
export const dateMs: Reader<number> = (text) => {
  const fault = 'is not a date; write 2027-06-30, or 2027-06-30T12:00:00Z with a zone'
  const [, day, ...clock] = timestamp.exec(text) ?? []
  if (day === undefined) return { fault }
  const [hour = 0, minute = 0, second = 0, zoneHour = 0, zoneMinute = 0] = clock.map((digits) =>
    Number(digits ?? 0),
  )
  if (hour > 23 || minute > 59 || second > 59 || zoneHour > 23 || zoneMinute > 59) return { fault }
  const dayMs = Date.parse(`${day}T00:00:00Z`)
  // Date.parse lets February 30th roll over into March.
  if (Number.isNaN(dayMs) || new Date(dayMs).toISOString().slice(0, 10) !== day) return { fault }
  const value = Date.parse(text)
  return Number.isFinite(value) ? { value } : { fault }
}
