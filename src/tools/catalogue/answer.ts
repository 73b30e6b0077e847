/** Answers of the service: a resource, or one of the faults in a fixed table. */
import type { z } from 'zod'

export interface Answer {
  readonly status: number
  /** JSON text. */
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

/** The codes are public and are never reused. */
const faultKinds = {
  invalid_parameter: { status: 400, message: 'A parameter is not valid' },
  invalid_body: { status: 400, message: 'The request body is not valid' },
  not_found: { status: 404, message: 'There is nothing at this address' },
  pet_not_found: { status: 404, message: 'There is no animal with this petId' },
  method_not_allowed: {
    status: 405,
    message: 'This address does not take that method; see the Allow header',
  },
  body_too_large: { status: 413, message: 'The request body is larger than 1 MiB' },
  unsupported_media_type: {
    status: 415,
    message: 'Send the body as "Content-Type: application/json" in UTF-8, without a content coding',
  },
  internal_error: { status: 500, message: 'The service could not complete the request' },
} as const
type FaultCode = keyof typeof faultKinds

/** Ends a request that cannot be served, with the Error resource as its answer. */
export class Fault extends Error {
  readonly answer: Answer

  /** detail: names the fields or parameters to correct, and never repeats what the client sent. */
  constructor(code: FaultCode, detail?: string, headers: Answer['headers'] = {}) {
    const { status, message: kind } = faultKinds[code]
    const message = detail ? `${kind}: ${detail}.` : `${kind}.`
    super(message)
    this.answer = { status, body: JSON.stringify({ code, message, status }), headers }
  }
}

/** Returns what the client sent in the schema's form, or throws a fault with all problems. */
export function parse<T>(schema: z.ZodType<T>, sent: unknown, code: FaultCode): T {
  const { data, error } = schema.safeParse(sent)
  if (error === undefined) return data
  throw new Fault(code, error.issues.map(({ message }) => message).join('; '))
}
