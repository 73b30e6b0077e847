/** Answers of the admin listener: JSON, or a body that is made as it is read. */
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
