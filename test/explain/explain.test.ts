/** What an explanation says: of each code that follows from rules, and that what it says would change the answer does. */
import { describe, expect, it } from 'vitest'
import type { Config } from '../../src/config/config.ts'
import { wordsOf } from '../../src/admin/page/explained.js'
import type { CallerKnown, Known, Question, Standing } from '../../src/explain/question.ts'
import type { AdminSources } from '../../src/gateway/admin-parts.ts'
import { explain } from '../../src/gateway/explaining.ts'
import { createLiveExplainer } from '../../src/gateway/live-explainer.ts'
import type { BanRecord } from '../../src/rules/ban-policy.ts'
import { keys } from '../support/gateway.ts'
import { readBlocks, type Blocks } from '../support/serving.ts'

const NOON = Date.UTC(2026, 10, 3, 14, 7, 31)
const ROUTES = `routes:
  - { name: listPets, match: GET /pets }
  - { name: old, match: GET /old, deprecated: { since: 2025-01-01, sunset: 2026-01-01, afterSunset: gone, successor: "/pets" } }
  - { name: dim, match: GET /dim, deprecated: { since: 2025-01-01, sunset: 2027-01-01, brownouts: [{ from: 2026-11-03T14:00:00Z, to: 2026-11-03T15:00:00Z, share: 100% }] } }
  - { name: live, match: GET /live, websocket: true }`
const SERVER =
  'server: { listen: "127.0.0.1:0", basePath: /v1, limits: { bodyBytes: 1KiB, urlBytes: 64B, headerCount: 10 } }'
const read = (blocks: Blocks = {}): Config =>
  readBlocks(['http://127.0.0.1:1'], {
    server: SERVER,
    routes: ROUTES,
    unmatched: 'unmatched: reject',
    ...blocks,
  })
const config = read()

const asked = (change: Partial<Question>, known: Known = {}, by = config) =>
  explain(
    by,
    { method: 'GET', target: '/v1/pets', headers: [], keyId: 'pro-1', atMs: NOON, ...change },
    known,
  )
const of = (known: CallerKnown): Known => ({ ofCaller: () => known })
const ban = {
  untilMs: NOON + 391_000,
  startedMs: NOON - 569_000,
  count: 5,
  reason: '20 strikes in 41 s',
}
const eightAtOnce = read({
  plans: plans(300, 10_000).replace('pro: {', 'pro: { concurrent: 8,'),
  bans: 'bans: { strikes: 60, within: 1m }',
})
const nobody = { keyId: undefined }
const upgrade = ['Connection', 'Upgrade', 'Upgrade', 'websocket']

describe('an explanation', () => {
  it.each<[string, string, string, Partial<Question>, Known?]>([
    ['null', 'forward', 'least requests of 1', {}],
    ['invalid_request', 'accept', 'dot segment in path', { target: '/v1/../pets' }],
    [
      'invalid_request',
      'forward',
      'Sec-WebSocket-Version is not 13',
      { target: '/v1/live', headers: upgrade },
    ],
    [
      'uri_too_long',
      'accept',
      'target of 80 bytes: above urlBytes',
      { target: `/v1/${'a'.repeat(76)}` },
    ],
    [
      'headers_too_large',
      'accept',
      '16 header fields: above headerCount',
      { headers: Array(28).fill('a') as string[] },
    ],
    [
      'body_too_large',
      'accept',
      'declared Content-Length: above bodyBytes',
      { method: 'POST', headers: ['Content-Length', '1025'] },
    ],
    [
      'length_required',
      'accept',
      'Send a Content-Length header or a chunked body.',
      { method: 'POST', headers: ['Expect', '100-continue'] },
    ],
    ['method_not_implemented', 'accept', 'unknown method', { method: 'BREW' }],
    ['not_found', 'match-route', 'outside of /v1', { target: '/pets' }],
    ['not_found', 'match-route', 'no route has this path', { target: '/v1/none' }],
    ['method_not_allowed', 'match-route', 'this path takes GET, HEAD', { method: 'PUT' }],
    ['missing_api_key', 'authenticate', 'no Authorization field', nobody],
    [
      'missing_api_key',
      'authenticate',
      'no Bearer before the key',
      { ...nobody, headers: ['Authorization', keys.pro] },
    ],
    [
      'invalid_api_key',
      'authenticate',
      'no such key',
      { ...nobody, headers: ['Authorization', 'Bearer x'] },
    ],
    ['invalid_api_key', 'authenticate', 'key ended 2020-01-01', { keyId: 'free-old' }],
    [
      'rate_limit_exceeded',
      'authenticate',
      '60 a minute without a valid key are used up (missing_api_key)',
      nobody,
      { anonymousUsed: 60 },
    ],
    ['overloaded', 'authenticate', 'the event loop is late', nobody, { shed: 'anonymous' }],
    ['overloaded', 'shed-load', 'the event loop is late', {}, { shed: 'everything' }],
    [
      'api_key_banned',
      'check-ban',
      'until 14:14:02Z, 5th ban, 16 min; 20 strikes in 41 s',
      {},
      of({ ban }),
    ],
    ['operation_removed', 'check-deprecation', 'gone, sunset 2026-01-01', { target: '/v1/old' }],
    [
      'operation_in_brownout',
      'check-deprecation',
      'in a brownout for this client until 15:00:00Z',
      { target: '/v1/dim' },
    ],
    [
      'rate_limit_exceeded',
      'take-quota',
      'minute 300/300, day 300/10,000',
      {},
      of({ use: { minute: 300, day: 300 } }),
    ],
    [
      'rate_limit_exceeded',
      'take-quota',
      'day 10,000/10,000, minute 12/300',
      {},
      of({ use: { minute: 12, day: 10_000 } }),
    ],
  ])('tells of %s from %s: %s', async (...[code, stage, rule, question, known]) => {
    const explained = await asked(question, known)
    expect(String(explained.code)).toBe(code)
    expect(explained.decidedBy).toBe(stage)
    expect(explained.stages.find((one) => one.stage === stage)?.rule).toBe(rule)
    expect(explained.charged).toBe(code === 'null')
    expect(explained.change.length).toBeGreaterThan(0)
  })
})

it('says that nobody knows how many of a client are under way, so that a turn is not promised', async () => {
  const { stages } = await asked({})
  expect(stages.find(({ stage }) => stage === 'take-turn')?.rule).toMatch(
    /^at most \d+ at once, per worker; how many are under way is not known$/,
  )
  const over = await asked({}, { isOver: true })
  expect(over.stages.find(({ stage }) => stage === 'take-turn')?.rule).not.toMatch(/not known/)
})

it.each<[Standing[], string | null, string]>([
  [[{ taken: 7, strikes: 0 }], null, '; 7 here'],
  [
    [{ taken: 8, strikes: 0 }],
    'concurrency_limit_exceeded',
    '; 8 here, and none ends within 250 ms',
  ],
  [
    [
      { worker: 2, taken: 8, strikes: 3 },
      { worker: 3, taken: 0, strikes: 4 },
    ],
    null,
    '; 8 in worker 2, 0 in worker 3',
  ],
])('tells of %j: %s%s', async (standings, code, rule) => {
  const told = await asked({}, of({ standings }), eightAtOnce)
  const [ban, turn] = ['check-ban', 'take-turn'].map((name) =>
    told.stages.find(({ stage }) => stage === name),
  )
  expect([told.code, told.charged]).toEqual([code, code === null])
  expect(turn?.rule).toBe(`at most 8 at once, per worker${rule}`)
  const [strikes, where] = standings.length === 1 ? ['0 of 60', 'here'] : ['4 of 60', 'in worker 3']
  expect(ban?.rule).toBe(`no ban, ${strikes} strikes ${where}`)
})

it('counts and bans by the time of the store, and knows keys by that of the gateway', async () => {
  const storeMs = Date.UTC(2036, 10, 4, 0, 0, 2)
  const window = { index: 0, taken: 300, used: 300 }
  const bans = new Map<string, BanRecord>()
  const { thoughtOf } = createLiveExplainer({
    reloads: { config },
    bans: { all: bans },
    readiness: { sheds: () => [] },
    anonymousRequests: () => 0,
    backendHealth: () => [],
    counters: { look: () => Promise.resolve([{ nowMs: storeMs, minute: window, day: window }]) },
    standings: () => Promise.resolve({ answers: [], missing: [] }),
  } as unknown as AdminSources)
  const ask = async () =>
    (await thoughtOf({ method: 'GET', target: '/v1/pets', keyId: 'pro-1' }))?.explanation
  const limited = await ask()
  // A second is to spare, as in answers.
  expect(limited).toMatchObject({ window: 'minute', retryAfterSeconds: 59 })
  expect(Date.parse(limited?.at ?? '')).toBeLessThan(storeMs - 86_400_000)
  expect(limited?.stages.find(({ stage }) => stage === 'take-quota')?.numbers).toMatchObject({
    minuteUsed: 300,
    minuteResetAt: '2036-11-04T00:01:00.000Z',
    dayUsed: 300,
    dayResetAt: '2036-11-05T00:00:00.000Z',
  })
  bans.set('pro-1', { ...ban, startedMs: Date.now(), untilMs: Date.now() + 3_600_000 })
  expect(await ask()).toMatchObject({ code: 'rate_limit_exceeded' })
  bans.set('pro-1', { ...ban, startedMs: storeMs - 1_000, untilMs: storeMs + 3_600_001 })
  const banned = await ask()
  expect(banned).toMatchObject({ code: 'api_key_banned', retryAfterSeconds: 3_601 })
  // The whole second in which it has ended, as all answers give it.
  expect(banned?.stages.find(({ stage }) => stage === 'check-ban')).toMatchObject({
    rule: expect.stringMatching(/^until 2036-11-04 01:00Z, /),
    numbers: { untilAt: '2036-11-04T01:00:03.000Z' },
  })
})

it.each(['local', 'open', 'closed'])(
  'foretells nothing that store.onOutage %s decides, but what is refused before',
  async (mode) => {
    const bans = new Map<string, BanRecord>()
    const { thoughtOf } = createLiveExplainer({
      reloads: { config: read({ store: `store: { file: "", onOutage: ${mode} }` }) },
      bans: { all: bans },
      readiness: { sheds: () => [] },
      anonymousRequests: () => 0,
      backendHealth: () => [],
      standings: () => Promise.resolve({ answers: [], missing: [] }),
      counters: { look: () => Promise.reject(new Error('away')) },
    } as unknown as AdminSources)
    const ask = () => thoughtOf({ method: 'GET', target: '/v1/pets', keyId: 'pro-1' })
    const { explanation, ...seen } = (await ask()) ?? {}
    expect(seen).toEqual({ scope: 'gateway', missing: [expect.stringMatching(/foretold/)] })
    expect(explanation).toMatchObject({
      status: null,
      code: null,
      decidedBy: 'take-quota',
      charged: false,
      change: [],
      assumed: null,
    })
    const verdicts = Object.fromEntries(
      explanation?.stages.map(({ stage, verdict, rule }) => [stage, { verdict, rule }]) ?? [],
    )
    expect(verdicts).toMatchObject({
      'check-deprecation': { verdict: 'pass' },
      'take-quota': { verdict: 'unknown', rule: expect.stringContaining(`onOutage (${mode})`) },
      forward: { verdict: 'notReached' },
    })
    const { answer, more } = explanation ? wordsOf(explanation, NOON) : { answer: '', more: [] }
    expect([answer, more]).toEqual(['not to be foretold: see take-quota, route listPets', []])
    bans.set('pro-1', { ...ban, startedMs: Date.now(), untilMs: Date.now() + 3_600_000 })
    expect((await ask())?.explanation).toMatchObject({ status: 429, code: 'api_key_banned' })
  },
)

const used = (minute: number, day: number): Known => of({ use: { minute, day } })
const later = (seconds: string | number) => ({ atMs: NOON + Number(seconds) * 1_000 })

type Case = [
  Partial<Question>,
  Known,
  RegExp,
  (...found: string[]) => Promise<{ readonly code: string | null }>,
  string?,
]

describe('what would change the answer', () => {
  it.each<Case>([
    [
      {},
      used(41, 8_119),
      /^the (\d+)th from here before 14:08:00Z is refused \(minute\)$/,
      (n) => asked({}, used(41 + Number(n) - 1, 9_000)),
    ],
    [
      {},
      used(41, 8_119),
      /^the (\d+)th from here/,
      (n) => asked({}, used(41 + Number(n), 9_000)),
      'rate_limit_exceeded',
    ],
    [
      {},
      used(41, 8_119),
      /^the ([\d,]+)st before 2026-11-04 00:00Z \(day\)$/,
      (n) => asked({}, used(0, 8_119 + Number(n.replace(',', '')))),
      'rate_limit_exceeded',
    ],
    [{}, used(300, 300), /^wait 30 s$/, () => asked(later(30))],
    [
      {},
      used(12, 10_000),
      /^plans\.pro\.perDay above (\d+)$/,
      (n) => asked({}, used(12, 10_000), read({ plans: plans(300, Number(n) + 1) })),
    ],
    [
      {},
      used(300, 10_000),
      /perDay above (\d+) and perMinute above (\d+)$/,
      (day, minute) =>
        asked({}, used(300, 10_000), read({ plans: plans(Number(minute) + 1, Number(day) + 1) })),
    ],
    [
      {},
      used(12, 10_000),
      /^tollgate usage reset pro-client --window day$/,
      () => asked({}, used(12, 0)),
    ],
    [{}, of({ ban }), /^wait 6 min 31 s$/, () => asked(later(391), of({ ban }))],
    [{}, of({ ban }), /^tollgate bans lift pro-1$/, () => asked({})],
    // A ban that ends before the window that is used up.
    [
      {},
      of({ ban, use: { minute: 12, day: 10_000 } }),
      /^wait 9 h 52 min$/,
      () => asked(later(9 * 3_600 + 53 * 60), of({ ban })),
    ],
    [
      {},
      of({ ban, use: { minute: 12, day: 10_000 } }),
      /^tollgate bans lift pro-1 and tollgate usage reset pro-client --window day$/,
      () => asked({}, used(12, 0)),
    ],
    [
      {},
      of({ ban, use: { minute: 300, day: 400 } }),
      /^wait 6 min 31 s$/,
      () => asked(later(391), of({ ban })),
    ],
    [
      nobody,
      {},
      /^send Authorization: Bearer KEY$/,
      () => asked({ ...nobody, headers: ['Authorization', `Bearer ${keys.pro}`] }),
    ],
    [
      nobody,
      { anonymousUsed: 60 },
      /^anonymous\.perMinute above (\d+)$/,
      (n) =>
        asked(
          nobody,
          { anonymousUsed: 60 },
          read({ anonymous: `anonymous: { perMinute: ${Number(n) + 1} }` }),
        ),
      'missing_api_key',
    ],
    [
      { target: '/v1/none' },
      {},
      /^a route with match: (.*)$/,
      (match) =>
        asked(
          { target: '/v1/none' },
          {},
          read({ routes: `${ROUTES}\n  - { name: new, match: ${match} }` }),
        ),
    ],
    [
      { target: '/v1/none' },
      {},
      /^unmatched: forward$/,
      () => asked({ target: '/v1/none' }, {}, read({ unmatched: 'unmatched: forward' })),
    ],
    [{ method: 'PUT' }, {}, /^send one of (\w+)/, (method) => asked({ method })],
    [{ target: '/v1/old' }, {}, /^send it to (.*)$/, (path) => asked({ target: `/v1${path}` })],
    [
      { target: '/v1/dim' },
      {},
      /^wait 52 min 29 s$/,
      () => asked({ target: '/v1/dim', ...later(52 * 60 + 29) }),
    ],
    [
      { target: `/v1/${'a'.repeat(76)}` },
      {},
      /^server\.limits\.urlBytes above (\d+)$/,
      (n) =>
        asked(
          { target: `/v1/${'a'.repeat(76)}` },
          {},
          read({ server: SERVER.replace('64B', `${Number(n) + 1}B`), unmatched: '' }),
        ),
    ],
    [
      { headers: ['Content-Length', '5000'] },
      {},
      /^server\.limits\.bodyBytes above (\d+)$/,
      (n) =>
        asked(
          { headers: ['Content-Length', '5000'] },
          {},
          read({ server: SERVER.replace('1KiB', `${Number(n) + 1}B`) }),
        ),
    ],
    [
      { headers: Array(28).fill('a') as string[] },
      {},
      /^server\.limits\.headerCount above (\d+)$/,
      (n) =>
        asked(
          { headers: Array(28).fill('a') as string[] },
          {},
          read({ server: SERVER.replace('headerCount: 10', `headerCount: ${Number(n) + 1}`) }),
        ),
    ],
  ])('of %j with %j: %s is true', async (...[question, known, change, apply, code]) => {
    const told = await asked(question, known)
    const found = told.change.map((one) => change.exec(one)).find((one) => one !== null)
    expect(found, told.change.join('; ')).toBeDefined()
    const changed = await apply(...(found ?? []).slice(1))
    expect(changed.code).toBe(code ?? null)
  })
})

function plans(perMinute: number, perDay: number): string {
  const limits = `{ perMinute: ${perMinute}, perDay: ${perDay} }`
  return `plans: { free: ${limits}, pro: ${limits}, business: ${limits}, enterprise: { custom: true } }`
}
