/** Reads an int64 from its digits without a detour through a floating-point number. */

const min = -(2n ** 63n)
const max = 2n ** 63n - 1n

/**
 * The text must be a JSON integer (RFC 8259, section 6) without fraction or exponent, so that each
 * value has one spelling; only `-0` is a second one, of 0. Anything else, and anything outside
 * -2^63..2^63-1, is undefined.
 */
export function parseInt64(text: string): bigint | undefined {
  // 19 digits and a sign are the longest an int64 can be: longer text is not worth converting.
  if (text.length > 20 || !/^-?(?:0|[1-9]\d*)$/.test(text)) return undefined
  const value = BigInt(text)
  return value >= min && value <= max ? value : undefined
}
