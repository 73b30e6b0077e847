/** What the admin listener answers: JSON, or what a page makes itself. */
import { refusalKinds } from '../rules/refusals.ts'

export interface Answer {
  readonly status: number
  readonly contentType: string
  readonly body: string
  /** Further header fields. */
  readonly fields?: Readonly<Record<string, string>>
}

export const json = (status: number, value: object, fields: Answer['fields'] = {}): Answer => ({
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

/** more: what helps beyond the message. */
export const fault = (
  { status, code, message }: Fault,
  {
    fields,
    ...more
  }: { readonly fields?: Answer['fields']; readonly [name: string]: unknown } = {},
): Answer => json(status, { code, message, status, ...more }, fields)

export const notFound = fault({ code: 'not_found', ...refusalKinds.not_found })

export const methodNotAllowed = (allow: string): Answer =>
  fault(
    { code: 'method_not_allowed', ...refusalKinds.method_not_allowed },
    { fields: { Allow: allow } },
  )
