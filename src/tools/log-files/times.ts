/** Parses the times of logs as Unix time in ms; NaN: no time. */

const DIGIT = 0x30
const ISO_BYTES = 24
/** Bytes of 2026-11-03T14:07:31.123Z before the seconds. */
const MINUTE_BYTES = 17
const MINUTE_AT_MS = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:$/

/** Makes a parser of times in bytes that parses each minute once: times of one minute share all but the last seven characters. */
export function createTimeReader(): (bytes: Uint8Array, from: number, to: number) => number {
  const minute = new Uint8Array(MINUTE_BYTES)
  let minuteMs = Number.NaN
  return (bytes, from, to) => {
    const digit = (at: number): number => (bytes[from + at] ?? 0) - DIGIT
    let isSame = to - from === ISO_BYTES && bytes[to - 1] === 0x5a && bytes[to - 5] === 0x2e
    for (let at = 0; isSame && at < MINUTE_BYTES; at++) isSame = bytes[from + at] === minute[at]
    if (!isSame) {
      const text = Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('latin1')
      const start = text.slice(0, MINUTE_BYTES)
      if (MINUTE_AT_MS.test(start)) {
        minute.set(bytes.subarray(from, from + MINUTE_BYTES))
        minuteMs = parseTime(`${start}00.000Z`)
      }
      return parseTime(text)
    }
    const seconds = 10 * digit(17) + digit(18)
    const ms = 100 * digit(20) + 10 * digit(21) + digit(22)
    return isDigits(bytes, from + 17, 2) && isDigits(bytes, from + 20, 3) && seconds <= 60
      ? minuteMs + 1_000 * seconds + ms
      : Number.NaN
  }
}

function isDigits(bytes: Uint8Array, from: number, count: number): boolean {
  for (let at = from; at < from + count; at++) {
    const digit = (bytes[at] ?? 0) - DIGIT
    if (digit < 0 || digit > 9) return false
  }
  return true
}

/** Bounds of RFC 3339, which hold for all forms. */
const CLOCK = String.raw`(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)`
const OFFSET = String.raw`[+-](?:[01]\d|2[0-3]):?[0-5]\d`
const RFC_3339 = new RegExp(String.raw`^\d{4}-\d\d-\d\d[T ]${CLOCK}(?:\.\d+)?(?:Z|${OFFSET})$`, 'i')
const NUMBER = /^\d{9,19}(\.\d+)?$/
/** The form of Apache's %t and nginx's $time_local. */
const COMMON = new RegExp(String.raw`^\[?(\d\d)/([A-Z][a-z]{2})/(\d{4}):(${CLOCK}) (${OFFSET})\]?$`)

/** Parses RFC 3339, the time of the combined format, or a number: Unix time in s, ms, us or ns, depending on its size. */
export function parseTime(text: string): number {
  if (RFC_3339.test(text))
    return hasDay(text.slice(0, 10), text.slice(8, 10))
      ? leapingMs(text.replace(' ', 'T'))
      : Number.NaN
  if (NUMBER.test(text)) return unixMs(Number(text))
  const [, day, month, year, time, offset] = COMMON.exec(text) ?? []
  const date = `${day} ${month} ${year}`
  return hasDay(`${date} GMT`, day) ? leapingMs(`${date} ${time} GMT${offset}`) : Number.NaN
}

/** In Unix time, a leap second is the same as the second that follows it. */
const leapingMs = (text: string): number =>
  text.includes(':60') ? Date.parse(text.replace(':60', ':59')) + 1_000 : Date.parse(text)

/** Checks that the day exists: Date.parse takes February 31 for March 3. */
const hasDay = (date: string, day: string | undefined): boolean =>
  new Date(date).getUTCDate() === Number(day)

/** Converts a number to ms; in each unit it covers the years 1973 to 5138. */
export function unixMs(value: number): number {
  if (!(value >= 1e8)) return Number.NaN
  if (value < 1e11) return value * 1_000
  if (value < 1e14) return value
  return value < 1e17 ? value / 1_000 : value / 1_000_000
}

/** Whether a Date can hold this time. */
export const isTime = (ms: number): boolean => ms > 0 && ms < MAX_MS
const MAX_MS = 8.64e15
