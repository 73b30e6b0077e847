/** A run in which all is right, and what is planted into it must be found; and what a run plans. */
import { describe, expect, it } from 'vitest'
import { faultKinds } from './events.ts'
import type { Answered, ChaosRequest, Fault, FaultKind, Outcome, Run, Sighting } from './events.ts'
import { chargedIn, compare } from './ledger.ts'
import { felt, latencies } from './latency.ts'
import { notShown } from './report.ts'
import { planFaults } from './schedule.ts'

const START_MS = 1_000 * 60_000
const LIMIT = 5

const ok = (number: number, more: Partial<Answered> = {}): Answered => ({
  kind: 'answered',
  status: 200,
  code: undefined,
  isOwn: true,
  requestId: `id-${number}`,
  limit: LIMIT,
  remaining: 1,
  resetSeconds: 1_001 * 60,
  retryAfterSeconds: undefined,
  ...more,
})
const refusal = (number: number, status: number, code: string): Answered =>
  ok(number, { status, code, isOwn: false, remaining: 0, retryAfterSeconds: 60 })
const cut: Outcome = { kind: 'cut', status: undefined, cause: 'ECONNRESET' }

const request = (number: number, more: Partial<ChaosRequest> = {}): ChaosRequest => ({
  number,
  client: 'a',
  method: 'GET',
  gateway: 'gateway 1',
  manner: 'plain',
  sentMs: START_MS + number * 100,
  endMs: START_MS + number * 100 + 10,
  outcomes: [ok(number)],
  ...more,
})
const sighting = (number: number, more: Partial<Sighting> = {}): Sighting => ({
  number,
  backend: 'backend 1',
  method: 'GET',
  client: 'a',
  atMs: START_MS + number * 100 + 5,
  body: 'whole',
  ...more,
})
const fault = (kind: FaultKind, part = '', more: Partial<Fault> = {}): Fault => ({
  kind,
  part,
  fromMs: START_MS,
  untilMs: START_MS + 1_000,
  ...more,
})
const counting = (dayTaken: number, dayUsed = dayTaken): Pick<Run, 'counted'> => {
  return { counted: new Map([['a', { dayTaken, dayUsed }]]) }
}

const client = { id: 'a', perMinute: LIMIT, isBystander: false, meetsNoKill: false }
const calm: Run = {
  clients: [client],
  requests: [
    request(0),
    request(1, { method: 'POST' }),
    request(2, { outcomes: [refusal(2, 429, 'rate_limit_exceeded')] }),
  ],
  sightings: [sighting(0), sighting(1, { method: 'POST' })],
  faults: [],
  past: [],
  ...counting(2),
}
/** The run with these in place of those of their number, and counters as they then are. */
function withChanged(changed: ChaosRequest, sightings: readonly Sighting[] = []): Run {
  const { number } = changed
  const all = [...calm.sightings.filter((one) => one.number !== number), ...sightings]
  return {
    ...calm,
    requests: [...calm.requests.slice(0, number), changed, ...calm.requests.slice(number + 1)],
    sightings: all,
    ...counting(new Set(all.map((one) => one.number)).size),
  }
}
const found = (run: Run): string[] => compare(run).map(({ rule, detail }) => `${rule}: ${detail}`)
const [first = request(0)] = calm.requests
/** The first request with another answer, and what backends saw of it. */
const answered = (outcome: Outcome, seen = [sighting(0)], faults: readonly Fault[] = []): Run => {
  return { ...withChanged(request(0, { outcomes: [outcome] }), seen), faults }
}
const cutWhile = (kind: FaultKind, part: string): Run =>
  answered(cut, [sighting(0)], [fault(kind, part)])
/** Refused by its limit in another way. */
const refused = (more: Partial<Answered>): Run =>
  withChanged(request(2, { outcomes: [{ ...refusal(2, 429, 'rate_limit_exceeded'), ...more }] }))
const posted = (sightings: readonly Partial<Sighting>[], outcomes: Outcome[] = [ok(1)]) =>
  withChanged(
    request(1, { method: 'POST', outcomes }),
    sightings.map((more) => sighting(1, { method: 'POST', ...more })),
  )
const badGateway = refusal(0, 502, 'bad_gateway')
const none = { limit: undefined, remaining: undefined, resetSeconds: undefined }
const bystander = { ...client, isBystander: true }
const longAgo = fault('backend breaks', 'backend 1', { fromMs: 0, untilMs: 1_000 })
const restarted = (untilMs: number): Fault =>
  fault('store restarted', '', { fromMs: START_MS - 2_000, untilMs: START_MS + untilMs })

/** So many requests that all is right with. */
function withMany(count: number, more: Partial<Answered> = {}): Run {
  const numbers = [...Array(count).keys()]
  return {
    ...calm,
    requests: numbers.map((number) => request(number, { outcomes: [ok(number, more)] })),
    sightings: numbers.map((number) => sighting(number)),
    ...counting(count),
  }
}
/** Too many 503 for a busy machine. */
const starved: Run = {
  ...withMany(LIMIT),
  requests: Array.from({ length: LIMIT + 6 }, (_, number) =>
    request(
      number,
      number < LIMIT ? {} : { outcomes: [refusal(number, 503, 'service_unavailable')] },
    ),
  ),
}
/** So many answers without quota headers, from more than a second after the store was back. */
const silent = (count: number): Run => ({ ...withMany(count, none), faults: [restarted(-1_100)] })

it.each([
  ['all is right', calm],
  ['the first answers of each worker after the store was back have no quota headers', silent(2)],
])('a run in which %s is in order', (_, run) => {
  expect(found(run)).toEqual([])
})

it.each<[string, Run]>([
  ['lost: 0 outcomes', withChanged(request(0, { outcomes: [] }), [sighting(0)])],
  ['lost: 2 outcomes', withChanged(request(0, { outcomes: [ok(0), cut] }), [sighting(0)])],
  ['twice: POST seen 2 times', posted([{}, { backend: 'backend 2' }])],
  ['twice: GET seen 3 times', answered(ok(0), [sighting(0), sighting(0), sighting(0)])],
  ['lost: answered, but no backend has seen it', answered(ok(0), [])],
  ['lost: answered, but its body was cut off', posted([{ body: undefined }])],
  ['wrong answer: another body', posted([{ body: 'wrong' }])],
  ['wrong answer: no X-RateLimit-Limit', answered(ok(0, none))],
  // For the third time, long after the store was back.
  ['wrong answer: no X-RateLimit-Limit', silent(3)],
  ['wrong answer: the answer to another request', answered(ok(0, { isOwn: false }))],
  ['stray: backend 1 saw GET 0 of b', answered(ok(0), [sighting(0, { client: 'b' })])],
  // That nobody made.
  ['stray: backend 1 saw GET 9 of a', answered(ok(0), [sighting(0), sighting(9)])],
  [
    'wrong answer: 429 rate_limit_exceeded, but GET seen 1 times',
    { ...calm, sightings: [...calm.sightings, sighting(2)] },
  ],
  ['wrong answer: 429 with Retry-After undefined', refused({ retryAfterSeconds: undefined })],
  [
    'wrong answer: refused by a window that ended 60200 ms before',
    refused({ resetSeconds: 999 * 60 }),
  ],
  ['wrong answer: Retry-After ends before the window', refused({ retryAfterSeconds: 58 })],
  ['wrong answer: Retry-After ends after the window', refused({ retryAfterSeconds: 62 })],
  ['wrong answer: X-RateLimit-Remaining -1', answered(ok(0, { remaining: -1 }))],
  ['wrong answer: X-RateLimit-Limit 7', answered(ok(0, { limit: 7 }))],
  ['wrong answer: no X-Request-Id', answered(ok(0, { requestId: undefined }))],
  ['wrong answer: one id for several: id-1', answered(ok(1))],
  ['unexplained: 502 bad_gateway', answered(badGateway)],
  // Long after the fault, and of a GET, which need not have failed.
  ['unexplained: 502 bad_gateway', answered(badGateway, [sighting(0)], [longAgo])],
  ['unexplained: 502 bad_gateway', answered(badGateway, [], [fault('backend dies')])],
  // At another gateway than the killed one, and at one that was told to stop.
  ['unexplained: cut before an answer', cutWhile('gateway killed', 'gateway 2')],
  ['unexplained: cut before an answer', cutWhile('gateway restarted', 'gateway 1')],
  ['unexplained: 429 rate_limit_exceeded', { ...calm, clients: [bystander] }],
  [`over a limit: ${LIMIT + 1} of ${LIMIT} in minute 1000`, withMany(LIMIT + 1)],
  ['unexplained: 6 of 11: 503 service_unavailable, 503 overloaded', starved],
])('a difference is found: %s', (difference, run) => {
  expect(found(run)).toContain(difference)
})

it.each<[string, Partial<Run>]>([
  ['charged more than backends saw: taken 3, used 3', counting(3)],
  ['charged less than backends saw: taken 1, used 1', counting(1)],
  ['not given back: taken 3, used 2', counting(3, 2)],
  [
    'not given back: taken 3, used 2',
    {
      ...counting(3, 2),
      clients: [{ ...client, meetsNoKill: true }],
      faults: [fault('gateway killed', 'gateway 2')],
    },
  ],
])('a difference of the counters is found: %s', (difference, more) => {
  expect(found({ ...calm, ...more })).toContain(`charge: ${difference}, seen 2, maybe 0, left 0`)
})

it.each([
  [11, []],
  [12, ['over a limit: 12 of 10 in minute 1000']],
])('a failover lets one lease more through, and not more: of %i', (count, differences) => {
  const clients = [{ ...client, perMinute: 10 }]
  const run = withMany(count, { limit: 10 })
  expect(found({ ...run, clients, faults: [fault('store failed over')] })).toEqual(differences)
})

it('a request is charged to the minute its answer tells, else to the one it was sent and seen in, else to none', () => {
  const later = request(0, { outcomes: [ok(0, { resetSeconds: 1_002 * 60 })] })
  expect(chargedIn(later, [sighting(0)])).toBe(1_001)
  expect(chargedIn(request(0, { outcomes: [cut] }), [sighting(0)])).toBe(1_000)
  expect(
    chargedIn(request(0, { outcomes: [cut] }), [sighting(0, { atMs: START_MS + 60_000 })]),
  ).toBeUndefined()
  expect(chargedIn(later, [])).toBeUndefined()
})

describe('bystanders', () => {
  const clients = [bystander]
  const slow = request(5, { endMs: START_MS + 500 + 900 })
  const run = (faults: readonly Fault[], seenAt: string): Run => ({
    ...calm,
    clients,
    requests: [first, slow],
    sightings: [sighting(0), sighting(5, { backend: seenAt })],
    faults,
  })
  const later = { fromMs: START_MS + 400 }

  it('feel it when they take far longer than in calm', () => {
    const flood = run([fault('flood', '', later)], 'backend 1')
    expect(felt(latencies(flood, START_MS + 400))).toEqual([
      "bystanders' p99 900 ms while: flood (calm: 10 ms)",
    ])
  })

  it.each<[string, Run]>([
    [
      'what any process of this machine would have taken as long for',
      {
        ...run([fault('flood', '', later)], 'backend 1'),
        past: [{ sentMs: START_MS + 450, endMs: START_MS + 700 }],
      },
    ],
    [
      'what went to the failed part',
      run([fault('backend hangs', 'backend 1', later)], 'backend 1'),
    ],
    [
      'what was decided while the store was away',
      run([fault('store frozen', '', later)], 'backend 1'),
    ],
  ])('are not those: %s', (_, each) => {
    expect(felt(latencies(each, START_MS + 400))).toEqual([])
  })
})

it('a run that showed nothing says so', () => {
  const missing = notShown({ ...calm, faults: [fault('flood')], requests: [first] })
  expect(missing).toContain('never: store frozen')
  expect(missing).not.toContain('never: flood')
  expect(missing).toContain('a was never refused by its limit')
})

it('in every plan each kind comes once before any comes again, one after the other in its line', () => {
  for (let seed = 0; seed < 200; seed++)
    for (const line of planFaults(seed, 5 * 60_000)) {
      const first = line.filter(({ mustCome }) => mustCome).map(({ kind }) => kind)
      expect(new Set(first).size).toBe(first.length)
      expect(line.slice(0, first.length).every(({ mustCome }) => mustCome)).toBe(true)
      for (const [at, { atMs }] of line.entries()) {
        const before = line[at - 1]
        if (before !== undefined) expect(atMs).toBeGreaterThan(before.atMs + before.forMs)
      }
    }
  const kinds = planFaults(1, 60_000).flatMap((line) => line.map(({ kind }) => kind))
  expect(new Set(kinds)).toEqual(new Set(Object.values(faultKinds).flat()))
})
