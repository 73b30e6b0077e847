/** Of a request that was answered otherwise than what is known now would have it: each stage says what became of it then. */
import { describe, expect, it } from 'vitest'
import type { Explanation } from '../../../src/insight/api/explain.ts'
import { byRecordAlone, type PastRequest } from '../../../src/insight/explain/past.ts'
import { explainPast } from '../../../src/server/gateway/explaining.ts'
import { STORE_LOST } from '../../../src/core/pipeline/take-quota.ts'
import { refusalKinds } from '../../../src/core/rules/refusals.ts'
import { readBlocks } from '../../support/serving.ts'
import { words } from '../../support/words.ts'

const config = readBlocks(['http://127.0.0.1:1'], {
  routes: 'routes: [{ name: listPets, match: GET /pets }]',
  unmatched: 'unmatched: reject',
})
const past = (change: Partial<PastRequest>): PastRequest => ({
  at: '2026-11-03T14:07:31.000Z',
  method: 'GET',
  path: '/v1/pets',
  route: 'listPets',
  client: 'pro-client',
  key: 'pro-1',
  plan: 'pro',
  status: change.refusal ? refusalKinds[change.refusal].status : 200,
  refusal: null,
  window: null,
  retryAfterSeconds: null,
  minute: { used: 3, limit: 300 },
  day: { used: 9, limit: 10_000 },
  backend: null,
  backendMs: null,
  charge: null,
  degraded: false,
  cause: null,
  revision: undefined,
  ...change,
})
const backend = 'http://127.0.0.1:1'
const unknown = { client: null, key: null, plan: null }
const stages = words(`accept match-route authenticate check-ban shed-load check-deprecation
  take-quota take-turn receive-body forward`)
const [P, R, N] = ['pass', 'refuse', 'notReached']
const verdictsOf = (explained: Explanation) =>
  explained.stages.map(({ stage, verdict }) => [stage, verdict])
const alone = (one: PastRequest) =>
  byRecordAlone(one, undefined, { minuteLeft: 297, dayLeft: 9_991 })

describe('the stages of a request that is over', () => {
  it.each<[PastRequest['refusal'], string, Partial<PastRequest>]>([
    ['concurrency_limit_exceeded', 'take-turn', { retryAfterSeconds: 1 }],
    ['request_timeout', 'receive-body', { cause: 'body below the minimum rate' }],
    ['request_timeout', 'forward', { backend }],
    ['request_timeout', 'accept', unknown],
    ['body_too_large', 'receive-body', { cause: 'more than 1024 bytes' }],
    ['body_too_large', 'accept', { ...unknown, cause: 'declared Content-Length' }],
    ['bad_gateway', 'forward', { backend, cause: 'ECONNRESET' }],
    ['gateway_timeout', 'forward', { backend }],
    ['service_unavailable', 'forward', { cause: 'all connections are in use' }],
    ['service_unavailable', 'take-quota', { cause: STORE_LOST.cause ?? '', degraded: true }],
    ['service_unavailable', 'authenticate', { ...unknown, key: 'jwt:a' }],
    ['invalid_request', 'forward', { cause: 'Sec-WebSocket-Version is not 13' }],
    ['overloaded', 'shed-load', {}],
    ['overloaded', 'authenticate', { ...unknown, key: 'pro-1' }],
    ['rate_limit_exceeded', 'take-quota', { window: 'day' }],
    ['rate_limit_exceeded', 'authenticate', { client: 'pro-client' }],
    ['api_key_banned', 'check-ban', { retryAfterSeconds: 60 }],
    ['operation_removed', 'check-deprecation', {}],
    ['invalid_api_key', 'authenticate', {}],
  ])('agree with the answer: %s by %s', async (refusal, decidedBy, change) => {
    const one = past({ ...change, refusal })
    const explained = await explainPast(config, one, undefined)
    expect(explained).toMatchObject({ code: refusal, status: one.status, decidedBy })
    const decidedAt = stages.indexOf(decidedBy)
    expect(verdictsOf(explained)).toEqual(
      stages.map((stage, at) => [stage, at < decidedAt ? P : at === decidedAt ? R : N]),
    )
    expect(verdictsOf(alone(one))).toEqual(verdictsOf(explained))
    expect(alone(one)).toMatchObject({ code: refusal, status: one.status, decidedBy })
    const { rule, numbers } = explained.stages[decidedAt] ?? {}
    if (one.cause !== null) expect(rule).toBe(one.cause)
    expect(rule).not.toBe('')
    expect(numbers?.['retryAfterSeconds'] ?? null).toBe(one.retryAfterSeconds)
  })

  const path = '/v1/none'
  it.each<[string, Partial<PastRequest>, string]>([
    // The path has no route: match-route refuses, and is told once the caller is believed.
    ['a ban that is over now', { refusal: 'api_key_banned', path }, 'PRPRNNNNNN check-ban'],
    ['a route that is there now', { refusal: 'not_found' }, 'PRPPPNNNNN match-route'],
    ['an answer, of a route that is gone', { path, backend }, 'PPPPPPPPPS forward'],
    ['an answer, by a key that is gone', { key: 'gone-1', backend }, 'PPPPPPPPPS forward'],
  ])('agree with %s', async (_, change, expected) => {
    const explained = await explainPast(config, past(change), undefined)
    const letters = explained.stages.map(({ verdict }) => verdict[0]?.toUpperCase()).join('')
    expect(`${letters} ${explained.decidedBy}`).toBe(expected)
  })
})
