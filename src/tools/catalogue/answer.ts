/** Answers of the service: a resource, or one of the faults in a fixed table. */

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

/** A request that cannot be served. It is a value: only bugs and a failing database throw. */
export interface Fault {
  readonly fault: keyof typeof faultKinds
  /** Names the fields or parameters to correct; never repeats what the client sent. */
  readonly detail?: string
  readonly headers?: Readonly<Record<string, string>>
}

export function isFault(value: unknown): value is Fault {
  return typeof value === 'object' && value !== null && 'fault' in value
}

/** The Error resource, with its `status` equal to the status of the answer. */
export function faultAnswer({ fault, detail, headers = {} }: Fault): Answer {
  const { status, message } = faultKinds[fault]
  const body = { code: fault, message: detail ? `${message}: ${detail}.` : `${message}.`, status }
  return { status, body: JSON.stringify(body), headers }
}
