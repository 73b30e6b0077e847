/** The one spelling of durations (250ms, 15s, 15m, 2h, 7d, 1y) and of sizes (512B, 16KiB, 1MiB, 1GiB), read and written here only. */

/** Digits without a leading zero, then a unit, of which the largest is named first: no sign, fraction, exponent or space. */
const quantity = (units: Readonly<Record<string, number>>) => {
  const shape = new RegExp(`^(0|[1-9][0-9]{0,15})(${Object.keys(units).join('|')})$`)
  return {
    shape,
    /** undefined for another shape, and for what does not fit a safe integer. */
    parse: (text: string): number | undefined => {
      const [, digits, unit = ''] = shape.exec(text) ?? []
      const amount = Number(digits) * (units[unit] ?? Number.NaN)
      return Number.isSafeInteger(amount) ? amount : undefined
    },
    /** A whole number from 0 up in the largest unit that divides it: 90000 is `90s`, 0 is `0ms`. */
    format: (amount: number): string => {
      const divides = (factor: number) => (amount === 0 ? factor === 1 : amount % factor === 0)
      const [unit, factor] = Object.entries(units).find(([, each]) => divides(each)) ?? ['', 1]
      return `${amount / factor}${unit}`
    },
  }
}

export const durations = quantity({
  y: 31_536_000_000,
  d: 86_400_000,
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
})

export const sizes = quantity({ GiB: 1_073_741_824, MiB: 1_048_576, KiB: 1024, B: 1 })
