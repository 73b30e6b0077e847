/** What an answer says, in the terms of the ledger. */
import type { IncomingMessage } from 'node:http'
import type { Outcome } from './events.ts'

/** isOwn: whether it is, to its last byte, the answer of a backend to this very request. */
export function answered(
  { statusCode = 0, headers }: IncomingMessage,
  { isOwn, body }: { isOwn: boolean; body: string },
): Outcome {
  const number = (name: string): number | undefined => {
    const value = headers[name]
    return value === undefined ? undefined : Number(value)
  }
  const isOfBackend = headers['x-backend'] !== undefined || statusCode === 101
  return {
    kind: 'answered',
    status: statusCode,
    code: isOfBackend ? undefined : codeOf(body),
    isOwn,
    requestId: headers['x-request-id']?.toString(),
    limit: number('x-ratelimit-limit'),
    remaining: number('x-ratelimit-remaining'),
    resetSeconds: number('x-ratelimit-reset'),
    retryAfterSeconds: number('retry-after'),
  }
}

/** undefined: no Error of the gateway. */
function codeOf(body: string): string | undefined {
  try {
    return (JSON.parse(body) as { code?: string }).code
  } catch {
    return undefined
  }
}
