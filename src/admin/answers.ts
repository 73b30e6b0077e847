/** Answers of the admin listener: JSON, or a body that is made as it is read. */
import type { Seen } from '../insight/api/live.ts'
import { refusalKinds } from '../core/rules/refusals.ts'
import { MayBeDone } from '../state/contract.ts'

/** Yields the next piece when the reader has taken those before. `gone` aborts when the reader has left, and ends any wait. */
export type BodyStream = (gone: AbortSignal) => AsyncIterable<string | Buffer>

export interface Answer {
  readonly status: number
  readonly contentType: string
  readonly body: string | Buffer | BodyStream
  /** Further header fields. */
  readonly fields?: Readonly<Record<string, string>>
}

export const json = (
  status: number,
  value: object,
  fields: Answer['fields'] = {},
): Answer & { readonly body: string } => ({
  status,
  contentType: 'application/json; charset=utf-8',
  body: `${JSON.stringify(value)}\n`,
  fields,
})

interface Fault {
  readonly status: number
  readonly code: string
  readonly message: string
}

/** more: fields of the answer besides its message. */
export const fault = (
  { status, code, message }: Fault,
  {
    fields,
    ...more
  }: { readonly fields?: Answer['fields']; readonly [name: string]: unknown } = {},
): Answer => json(status, { code, message, status, ...more }, fields)

/** RFC 3339; null: not known, or never. */
export function iso(ms: number): string
export function iso(ms: number | undefined): string | null
export function iso(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString()
}

/** When and of what an answer is, and what is missing from it. */
export const seen = <Scope extends Seen['scope']>(
  scope: Scope,
  missing: readonly string[] = [],
) => ({
  asOf: iso(Date.now()),
  scope,
  ...(missing.length > 0 && { missing }),
})

export const invalidRequest = (message: string): Answer =>
  fault({ status: 400, code: 'invalid_request', message })

export const unknownClient = fault({
  status: 404,
  code: 'unknown_client',
  message: 'No client of the configuration has this id, and no other is known by it.',
})

export const storeAway = fault({
  status: 503,
  code: 'store_unavailable',
  message:
    'The store is away: nothing was read or changed. See GET /readyz and the log, then ask again.',
})

const mayBeDone = fault({
  status: 503,
  code: 'store_unavailable',
  message:
    'The store was asked and did not answer: it is not known whether it was done. Look when the store is back, and ask again.',
})

/** Thrown by an operation that cannot do what is asked; nothing but its answer is told. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly answer: Answer

  constructor(answer: Answer) {
    super('the operation is refused')
    this.answer = answer
  }
}

/** What an act of an operator in the store has led to; an act that fails is refused. */
export const acted = <Made>(act: Promise<Made>): Promise<Made> =>
  act.catch((error: unknown) => {
    throw new Refused(error instanceof MayBeDone ? mayBeDone : storeAway)
  })

export const unknownKey = fault({
  status: 404,
  code: 'unknown_key',
  message: 'No client of the configuration has a key of this id.',
})

export const notFound = fault({ code: 'not_found', ...refusalKinds.not_found })

export const methodNotAllowed = (allow: string): Answer =>
  fault(
    { code: 'method_not_allowed', ...refusalKinds.method_not_allowed },
    { fields: { Allow: allow } },
  )
