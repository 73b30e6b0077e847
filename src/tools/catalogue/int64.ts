/** Parses an int64 from its digits, without a floating-point number in between. */

const min = -(2n ** 63n)
const max = 2n ** 63n - 1n

/**
 * The text must be a JSON integer (RFC 8259, section 6) without fraction or exponent, so that each
 * value has one spelling, except that `-0` is 0, too. Any other text, and any value outside
 * -2^63..2^63-1, gives undefined.
 */
export function parseInt64(text: string): bigint | undefined {
  // The longest int64 has 19 digits and a sign; longer text is not converted.
  if (text.length > 20 || !/^-?(?:0|[1-9]\d*)$/.test(text)) return undefined
  const value = BigInt(text)
  return value >= min && value <= max ? value : undefined
}
