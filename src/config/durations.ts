/** The one spelling of durations (250ms, 15s, 15m, 2h, 7d) and of sizes (512B, 16KiB, 1MiB, 1GiB), read and written here only. */

const msPerUnit = new Map([
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
])

const bytesPerUnit = new Map([
  ['GiB', 1_073_741_824],
  ['MiB', 1_048_576],
  ['KiB', 1024],
  ['B', 1],
])

/** Digits without a leading zero, then a unit of the table: no sign, fraction, exponent or space. */
const shapeOf = (units: ReadonlyMap<string, number>): RegExp =>
  new RegExp(`^(0|[1-9][0-9]{0,15})(${[...units.keys()].join('|')})$`)

export const durationShape = shapeOf(msPerUnit)
export const sizeShape = shapeOf(bytesPerUnit)

const parse = (
  text: string,
  [shape, units]: readonly [RegExp, ReadonlyMap<string, number>],
): number | undefined => {
  const [, digits, unit] = shape.exec(text) ?? []
  const factor = unit === undefined ? undefined : units.get(unit)
  if (digits === undefined || factor === undefined) return undefined
  const product = Number(digits) * factor
  return Number.isSafeInteger(product) ? product : undefined
}

const format = (amount: number, units: ReadonlyMap<string, number>): string => {
  if (!Number.isSafeInteger(amount) || amount < 0) {
    throw new RangeError(`${amount} has no spelling: it is not a whole number from 0 up`)
  }
  let smallest = ''
  for (const [unit, factor] of units) {
    if (amount !== 0 && amount % factor === 0) return `${amount / factor}${unit}`
    smallest = unit
  }
  return `0${smallest}`
}

/** Reads `15m` as 900000 ms; undefined when the text is no duration or does not fit a safe integer. */
export const parseDurationMs = (text: string): number | undefined =>
  parse(text, [durationShape, msPerUnit])

/** Reads `16KiB` as 16384 bytes; undefined when the text is no size or does not fit a safe integer. */
export const parseSizeBytes = (text: string): number | undefined =>
  parse(text, [sizeShape, bytesPerUnit])

/** Writes ms in the largest unit that divides them: 90000 is `90s`, 0 is `0ms`. Throws RangeError unless whole and not negative. */
export const formatDurationMs = (ms: number): string => format(ms, msPerUnit)

/** Writes bytes in the largest unit that divides them: 16384 is `16KiB`, 0 is `0B`. Throws RangeError unless whole and not negative. */
export const formatSizeBytes = (bytes: number): string => format(bytes, bytesPerUnit)
