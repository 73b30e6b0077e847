/** What an explanation says: of each code that follows from rules, and that what it says would change the answer does. */
import { describe, expect, it } from 'vitest'
import type { Explanation } from '../../../src/insight/api/explain.ts'
import type { Config } from '../../../src/config/config.ts'
import { wordsOf } from '../../../src/admin/explain/words.ts'
import type {
  CallerKnown,
  Known,
  Question,
  CallerStanding,
} from '../../../src/insight/explain/question.ts'
import { explain } from '../../../src/server/gateway/explaining.ts'
import type { Gateway } from '../../../src/server/gateway/gateway.ts'
import { createLiveExplainer } from '../../../src/server/gateway/live-explainer.ts'
import type { BanRecord } from '../../../src/state/bans.ts'
import { keys } from '../../support/gateway.ts'
import { readBlocks, type Blocks } from '../../support/serving.ts'

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
const used = (minute: number, day: number): Known => of({ use: { minute, day } })
const banTimes = { untilMs: NOON + 391_000, startedMs: NOON - 569_000 }
const ban = { ...banTimes, count: 5, reason: '20 strikes in 41 s' }
const eightAtOnce = read({
  plans: plans(300, 10_000).replace('pro: {', 'pro: { concurrent: 8,'),
  bans: 'bans: { strikes: 60, within: 1m }',
})
const nobody = { keyId: undefined }
const upgrade = ['Connection', 'Upgrade', 'Upgrade', 'websocket']

const longTarget = { target: `/v1/${'a'.repeat(76)}` }
const manyFields = { headers: Array<string>(28).fill('a') }
const stageOf = ({ stages }: Explanation, name: string | null) =>
  stages.find(({ stage }) => stage === name)

describe('an explanation', () => {
  const basic = (token: string) => ({ ...nobody, headers: ['Authorization', token] })
  const post = (...headers: string[]) => ({ method: 'POST', headers })
  it.each<[string, Partial<Question>, Known?]>([
    ['null by forward: least requests of 1', {}],
    ['invalid_request by accept: dot segment in path', { target: '/v1/../pets' }],
    [
      'invalid_request by forward: Sec-WebSocket-Version is not 13',
      { target: '/v1/live', headers: upgrade },
    ],
    ['uri_too_long by accept: target of 80 bytes: above urlBytes', longTarget],
    ['headers_too_large by accept: 16 header fields: above headerCount', manyFields],
    [
      'body_too_large by accept: declared Content-Length: above bodyBytes',
      post('Content-Length', '1025'),
    ],
    [
      'length_required by accept: Send a Content-Length header or a chunked body.',
      post('Expect', '100-continue'),
    ],
    ['method_not_implemented by accept: unknown method', { method: 'BREW' }],
    ['not_found by match-route: outside of /v1', { target: '/pets' }],
    ['not_found by match-route: no route has this path', { target: '/v1/none' }],
    ['method_not_allowed by match-route: this path takes GET, HEAD', { method: 'PUT' }],
    ['missing_api_key by authenticate: no Authorization field', nobody],
    ['missing_api_key by authenticate: no Bearer before the key', basic(keys.pro)],
    ['invalid_api_key by authenticate: no such key', basic('Bearer x')],
    ['invalid_api_key by authenticate: key ended 2020-01-01', { keyId: 'free-old' }],
    [
      'rate_limit_exceeded by authenticate: 60 a minute without a valid key are used up (missing_api_key)',
      nobody,
      { anonymousUsed: 60 },
    ],
    ['overloaded by authenticate: the event loop is late', nobody, { shed: 'anonymous' }],
    ['overloaded by shed-load: the event loop is late', {}, { shed: 'everything' }],
    [
      'api_key_banned by check-ban: until 14:14:02Z, 5th ban, 16 min; 20 strikes in 41 s',
      {},
      of({ ban }),
    ],
    ['operation_removed by check-deprecation: gone, sunset 2026-01-01', { target: '/v1/old' }],
    [
      'operation_in_brownout by check-deprecation: in a brownout for this client until 15:00:00Z',
      { target: '/v1/dim' },
    ],
    ['rate_limit_exceeded by take-quota: minute 300/300, day 300/10,000', {}, used(300, 300)],
    ['rate_limit_exceeded by take-quota: day 10,000/10,000, minute 12/300', {}, used(12, 10_000)],
  ])('tells of %s', async (expected, question, known) => {
    const told = await asked(question, known)
    const rule = stageOf(told, told.decidedBy)?.rule
    expect(`${told.code} by ${told.decidedBy}: ${rule}`).toBe(expected)
    expect(told.charged).toBe(told.code === null)
    expect(told.change.length).toBeGreaterThan(0)
  })
})

it('says that nobody knows how many of a client are under way, so that a turn is not promised', async () => {
  expect(stageOf(await asked({}), 'take-turn')?.rule).toMatch(
    /^at most \d+ at once, per worker; how many are under way is not known$/,
  )
  expect(stageOf(await asked({}, { isOver: true }), 'take-turn')?.rule).not.toMatch(/not known/)
})

const here = (taken: number): CallerStanding => ({ taken, strikes: 0 })
it.each<[CallerStanding[], string | null, string]>([
  [[here(7)], null, '; 7 here'],
  [[here(8)], 'concurrency_limit_exceeded', '; 8 here, and none ends within 250 ms'],
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
  expect([told.code, told.charged]).toEqual([code, code === null])
  expect(stageOf(told, 'take-turn')?.rule).toBe(`at most 8 at once, per worker${rule}`)
  const strikes = standings.length === 1 ? '0 of 60 strikes here' : '4 of 60 strikes in worker 3'
  expect(stageOf(told, 'check-ban')?.rule).toBe(`no ban, ${strikes}`)
})

function liveExplainer(config: Config, look: () => Promise<unknown>) {
  const bans = new Map<string, BanRecord>()
  const { hypothetical } = createLiveExplainer({
    reloads: { config },
    workers: { links: [], operatorBans: { all: bans } },
    counters: { look },
    addresses: { add: () => ({ window: 0, total: 0 }) },
  } as unknown as Gateway)
  const query = { method: 'GET', target: '/v1/pets', keyId: 'pro-1', headers: {} }
  return { bans, think: () => hypothetical(query) }
}

it('counts and bans by the time of the store, and knows keys by that of the gateway', async () => {
  const storeMs = Date.UTC(2036, 10, 4, 0, 0, 2)
  const window = { index: 0, taken: 300, used: 300 }
  const use = [{ nowMs: storeMs, minute: window, day: window }]
  const { bans, think } = liveExplainer(config, () => Promise.resolve(use))
  const ask = async () => (await think())?.explanation
  const limited = await ask()
  // A second is to spare, as in answers.
  expect(limited).toMatchObject({ window: 'minute', retryAfterSeconds: 59 })
  expect(Date.parse(limited?.at ?? '')).toBeLessThan(storeMs - 86_400_000)
  const numbers = { minuteUsed: 300, minuteResetAt: '2036-11-04T00:01:00.000Z', dayUsed: 300 }
  const dayResetAt = '2036-11-05T00:00:00.000Z'
  const quota = limited && stageOf(limited, 'take-quota')
  expect(quota?.numbers).toMatchObject({ ...numbers, dayResetAt })
  bans.set('pro-1', { ...ban, startedMs: Date.now(), untilMs: Date.now() + 3_600_000 })
  expect(await ask()).toMatchObject({ code: 'rate_limit_exceeded' })
  bans.set('pro-1', { ...ban, startedMs: storeMs - 1_000, untilMs: storeMs + 3_600_001 })
  const banned = await ask()
  expect(banned).toMatchObject({ code: 'api_key_banned', retryAfterSeconds: 3_601 })
  // The whole second in which it has ended, as all answers give it.
  expect(banned && stageOf(banned, 'check-ban')).toMatchObject({
    rule: expect.stringMatching(/^until 2036-11-04 01:00Z, /),
    numbers: { untilAt: '2036-11-04T01:00:03.000Z' },
  })
})

it.each(['local', 'open', 'closed'])(
  'foretells nothing that store.onOutage %s decides, but what is refused before',
  async (mode) => {
    const awaited = read({ store: `store: { file: "", onOutage: ${mode} }` })
    const { bans, think } = liveExplainer(awaited, () => Promise.reject(new Error('away')))
    const { explanation, ...seen } = (await think()) ?? {}
    expect(seen).toEqual({ scope: 'gateway', missing: [expect.stringMatching(/foretold/)] })
    const open = { status: null, code: null, charged: false, change: [], assumed: null }
    expect(explanation).toMatchObject({ ...open, decidedBy: 'take-quota' })
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
    expect((await think())?.explanation).toMatchObject({ status: 429, code: 'api_key_banned' })
  },
)

const later = (seconds: number) => ({ atMs: NOON + seconds * 1_000 })

type Given = readonly [question: Partial<Question>, known?: Known]
type Told = Promise<{ readonly code: string | null }>

describe('what would change the answer', () => {
  const calm: Given = [{}, used(41, 8_119)]
  const dayUsed: Given = [{}, used(12, 10_000)]
  const bothUsed: Given = [{}, used(300, 10_000)]
  const banned: Given = [{}, of({ ban })]
  const bannedAndUsed: Given = [{}, of({ ban, use: { minute: 12, day: 10_000 } })]
  const none: Given = [{ target: '/v1/none' }]
  const dim = { target: '/v1/dim' }
  const above = (was: string, n = '0') => ({
    server: SERVER.replace(was, was.replace(/\d+/, `${Number(n) + 1}`)),
  })
  const anonymous = (n: number) => ({ anonymous: `anonymous: { perMinute: ${n + 1} }` })
  const proPlan = (minute: number, day: number) => ({ plans: plans(minute, day + 1) })

  /** By what is said; again: the same question under another configuration. */
  it.each<[Given, RegExp, (found: string[], again: (by: Blocks) => Told) => Told, string?]>([
    [
      calm,
      /^the (\d+)th from here before 14:08:00Z is refused \(minute\)$/,
      ([n]) => asked({}, used(41 + Number(n) - 1, 9_000)),
    ],
    [
      calm,
      /^the (\d+)th from here/,
      ([n]) => asked({}, used(41 + Number(n), 9_000)),
      'rate_limit_exceeded',
    ],
    [
      calm,
      /^the ([\d,]+)st before 2026-11-04 00:00Z \(day\)$/,
      ([n]) => asked({}, used(0, 8_119 + Number(n?.replace(',', '')))),
      'rate_limit_exceeded',
    ],
    [[{}, used(300, 300)], /^wait 30 s$/, () => asked(later(30))],
    [dayUsed, /^plans\.pro\.perDay above (\d+)$/, ([n], again) => again(proPlan(300, Number(n)))],
    [
      bothUsed,
      /perDay above (\d+) and perMinute above (\d+)$/,
      ([day, minute], again) => again(proPlan(Number(minute) + 1, Number(day))),
    ],
    [dayUsed, /^tollgate usage reset pro-client --day$/, () => asked({}, used(12, 0))],
    [banned, /^wait 6 min 31 s$/, () => asked(later(391), of({ ban }))],
    [banned, /^tollgate bans lift pro-1$/, () => asked({})],
    // A ban that ends before the window that is used up.
    [bannedAndUsed, /^wait 9 h 52 min$/, () => asked(later(9 * 3_600 + 53 * 60), of({ ban }))],
    [
      bannedAndUsed,
      /^tollgate bans lift pro-1 and tollgate usage reset pro-client --day$/,
      () => asked({}, used(12, 0)),
    ],
    [
      [{}, of({ ban, use: { minute: 300, day: 400 } })],
      /^wait 6 min 31 s$/,
      () => asked(later(391), of({ ban })),
    ],
    [
      [nobody],
      /^send Authorization: Bearer KEY$/,
      () => asked({ ...nobody, headers: ['Authorization', `Bearer ${keys.pro}`] }),
    ],
    [
      [nobody, { anonymousUsed: 60 }],
      /^anonymous\.perMinute above (\d+)$/,
      ([n], again) => again(anonymous(Number(n))),
      'missing_api_key',
    ],
    [
      none,
      /^a route with match: (.*)$/,
      ([match], again) => again({ routes: `${ROUTES}\n  - { name: new, match: ${match} }` }),
    ],
    [none, /^unmatched: forward$/, (_, again) => again({ unmatched: 'unmatched: forward' })],
    [[{ method: 'PUT' }], /^send one of (\w+)/, ([method = '']) => asked({ method })],
    [[{ target: '/v1/old' }], /^send it to (.*)$/, ([path]) => asked({ target: `/v1${path}` })],
    [[dim], /^wait 52 min 29 s$/, () => asked({ ...dim, ...later(52 * 60 + 29) })],
    [
      [longTarget],
      /^server\.limits\.urlBytes above (\d+)$/,
      ([n], again) => again({ ...above('64B', n), unmatched: '' }),
    ],
    [
      [{ headers: ['Content-Length', '5000'] }],
      /^server\.limits\.bodyBytes above (\d+)$/,
      ([n], again) => again({ server: SERVER.replace('1KiB', `${Number(n) + 1}B`) }),
    ],
    [
      [manyFields],
      /^server\.limits\.headerCount above (\d+)$/,
      ([n], again) => again(above('headerCount: 10', n)),
    ],
  ])('of %j: %s is true', async ([question, known], change, apply, code) => {
    const told = await asked(question, known)
    const found = told.change.map((one) => change.exec(one)).find((one) => one !== null)
    expect(found, told.change.join('; ')).toBeDefined()
    const changed = await apply([...(found ?? [])].slice(1), (by) =>
      asked(question, known, read(by)),
    )
    expect(changed.code).toBe(code ?? null)
  })
})

function plans(perMinute: number, perDay: number): string {
  const limits = `{ perMinute: ${perMinute}, perDay: ${perDay} }`
  return `plans: { free: ${limits}, pro: ${limits}, business: ${limits}, enterprise: { custom: true } }`
}
