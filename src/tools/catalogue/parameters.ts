/** What clients send in an address: the parameters of a page, and ids. */
import { z } from 'zod'
import { Fault, parse } from './answer.ts'
import { petStatus } from './pet.ts'

const given = (name: string) => z.string({ error: `${name} must be given once` })

/** Unknown parameters are ignored, so that a cache buster or a newer client does no harm. */
const pageQuery = z.object({
  /** Animals on the page. */
  limit: given('limit')
    .regex(/^(?:[1-9]\d?|100)$/, 'limit must be an integer from 1 to 100')
    .transform(Number)
    .default(20),
  status: given('status').pipe(petStatus).optional(),
  /** Only animals with a greater id; 0 for the first page, since ids begin at 1. */
  cursor: given('cursor')
    .transform((text, context) => {
      const id = parseCursor(text)
      if (id === undefined)
        context.addIssue('cursor must be taken unchanged from the Link header of the page before')
      return id ?? 0n
    })
    .default(0n),
})
export type PageQuery = Readonly<z.infer<typeof pageQuery>>

export function parsePageQuery(query: string): PageQuery {
  const parameters = new URLSearchParams(query)
  const sent = Object.keys(pageQuery.shape).map((name) => {
    const all = parameters.getAll(name)
    return [name, all.length > 1 ? all : all[0]]
  })
  return parse(pageQuery, Object.fromEntries(sent), 'invalid_parameter')
}

/** The cursor of the next page, opaque to clients: the base64url form of the last id. */
export function cursorAfter(id: bigint): string {
  return Buffer.from(String(id)).toString('base64url')
}

function parseCursor(text: string): bigint | undefined {
  const id = parseInt64(Buffer.from(text, 'base64url').toString('latin1'))
  // Buffer skips what is not base64url; only a cursor that this service could have written is accepted.
  return id !== undefined && id > 0n && cursorAfter(id) === text ? id : undefined
}

export function parsePetId(text: string): bigint {
  const id = parseInt64(text)
  if (id !== undefined) return id
  throw new Fault('invalid_parameter', 'petId must be an integer in the range of int64')
}

/**
 * Parses an int64 from its digits, without a floating-point number in between.
 * The text must be a JSON integer (RFC 8259, section 6) without fraction or exponent, so that each
 * value has one spelling, except that `-0` is 0, too. Any other text, and any value outside
 * -2^63..2^63-1, gives undefined.
 */
export function parseInt64(text: string): bigint | undefined {
  // The longest int64 has 19 digits and a sign; longer text is not converted.
  if (text.length > 20 || !/^-?(?:0|[1-9]\d*)$/.test(text)) return undefined
  const value = BigInt(text)
  return BigInt.asIntN(64, value) === value ? value : undefined
}
