/** What clients send in an address: the parameters of a page, and ids. */
import type { Fault } from './answer.ts'
import { petStatus, type PetStatus } from './pet.ts'

const maxPageSize = 100
const defaultPageSize = 20

export interface PageQuery {
  /** Animals on the page, 1..100. */
  readonly limit: number
  readonly status: PetStatus | undefined
  /** Only animals with a greater id; 0 for the first page, since ids begin at 1. */
  readonly afterId: bigint
}

/** Unknown parameters are ignored, so that a cache buster or a newer client does no harm. */
export function parsePageQuery(query: string): PageQuery | Fault {
  const parameters = new URLSearchParams(query)
  const problems: string[] = []
  for (const name of ['limit', 'status', 'cursor']) {
    if (parameters.getAll(name).length > 1) problems.push(`${name} must be given once`)
  }
  const limit = parsePageSize(parameters.get('limit'))
  if (limit === undefined) problems.push(`limit must be an integer from 1 to ${maxPageSize}`)
  const status = petStatus.optional().safeParse(parameters.get('status') ?? undefined)
  if (status.error) problems.push(...status.error.issues.map(({ message }) => message))
  const afterId = parseCursor(parameters.get('cursor'))
  if (afterId === undefined) {
    problems.push('cursor must be taken unchanged from the Link header of the page before')
  }
  if (problems.length > 0 || limit === undefined || afterId === undefined) {
    return { fault: 'invalid_parameter', detail: problems.join('; ') }
  }
  return { limit, status: status.data, afterId }
}

function parsePageSize(text: string | null): number | undefined {
  if (text === null) return defaultPageSize
  if (!/^[1-9]\d{0,2}$/.test(text)) return undefined
  const size = Number(text)
  return size <= maxPageSize ? size : undefined
}

/** The cursor of the next page, opaque to clients: the base64url form of the last id. */
export function cursorAfter(id: bigint): string {
  return Buffer.from(String(id)).toString('base64url')
}

function parseCursor(text: string | null): bigint | undefined {
  if (text === null) return 0n
  const id = parseInt64(Buffer.from(text, 'base64url').toString('latin1'))
  // Buffer skips what is not base64url; only a cursor that this service could have written is accepted.
  return id !== undefined && id > 0n && cursorAfter(id) === text ? id : undefined
}

export function parsePetId(text: string): bigint | Fault {
  return (
    parseInt64(text) ?? {
      fault: 'invalid_parameter',
      detail: 'petId must be an integer in the range of int64',
    }
  )
}

const minInt64 = -(2n ** 63n)
const maxInt64 = 2n ** 63n - 1n

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
  return value >= minInt64 && value <= maxInt64 ? value : undefined
}
