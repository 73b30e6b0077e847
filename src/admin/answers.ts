/** Answers of the admin listener: JSON, or a body that is made as it is read; and the faults that it refuses with. */
import { refusalKinds } from '../core/rules/refusals.ts'
import { MayBeDone } from '../state/contract.ts'
import type { Seen } from '../insight/api/live.ts'

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

const kind = (status: number, message: string) => ({ status, message })

/** Everything that the admin listener refuses with. Codes are public and are never reused. */
const kinds = {
  invalid_request: refusalKinds.invalid_request,
  invalid_token: kind(
    401,
    'Send the token of admin.tokenSha256 as "Authorization: Bearer <TOKEN>".',
  ),
  foreign_host: kind(
    403,
    'This listener is not known by the name in Host; names can be added to admin.hosts.',
  ),
  foreign_origin: kind(
    403,
    'Pages of other origins may not ask here; names can be added to admin.hosts.',
  ),
  not_found: refusalKinds.not_found,
  not_banned: kind(404, 'This key is not banned.'),
  unknown_client: kind(
    404,
    'No client of the configuration has this id, and no other is known by it.',
  ),
  unknown_key: kind(404, 'No client of the configuration has a key of this id.'),
  unknown_request: kind(
    404,
    'No request of this id is among the latest that are kept in memory; look in the log of the gateway that answered it: tollgate explain ID --log FILE --config FILE.',
  ),
  method_not_allowed: refusalKinds.method_not_allowed,
  files_changed: kind(
    409,
    'The files hold another revision by now; look at what it changes first.',
  ),
  several_requests: kind(409, 'Several of the latest requests have this id.'),
  body_too_large: refusalKinds.body_too_large,
  unsupported_media_type: kind(415, 'Send the body as Content-Type: application/json.'),
  config_refused: kind(422, 'The configuration cannot be taken; the one in force stays.'),
  too_many_explanations: kind(
    429,
    'So many are explained at the moment that callers could feel it; ask again in 1 s.',
  ),
  internal_error: kind(500, 'The answer could not be made; see the log.'),
  store_unavailable: kind(
    503,
    'The store is away: nothing was read or changed. See GET /readyz and the log, then ask again.',
  ),
  too_many_listeners: kind(503, 'As many listen already as may at once; close one of them.'),
}

interface Details {
  /** In place of that of the kind. */
  readonly message?: string
  readonly fields?: Answer['fields']
  /** Further fields of its body. */
  readonly [name: string]: unknown
}

export function fault(code: keyof typeof kinds, details: Details = {}): Answer {
  const { status, message: usual } = kinds[code]
  const { message = usual, fields, ...more } = details
  return json(status, { code, message, status, ...more }, fields)
}

export const methodNotAllowed = (allow: string): Answer =>
  fault('method_not_allowed', { fields: { Allow: allow } })

/** Thrown by an operation that cannot do what is asked; the caller gets its answer and nothing else of the error. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly answer: Answer

  constructor(...given: Parameters<typeof fault>) {
    super(given[0])
    this.answer = fault(...given)
  }
}

const MAY_BE_DONE =
  'The store was asked and did not answer: it is not known whether it was done. Look when the store is back, and ask again.'

/** What an act of an operator in the store has led to; an act that fails is refused. */
export const acted = <Made>(act: Promise<Made>): Promise<Made> =>
  act.catch((error: unknown) => {
    const details = error instanceof MayBeDone ? { message: MAY_BE_DONE } : {}
    throw new Refused('store_unavailable', details)
  })
