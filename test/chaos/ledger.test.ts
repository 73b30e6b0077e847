/** A run in which all is right, and what is planted into it must be found. */
import { describe, expect, it } from 'vitest'
import type {
  Answered,
  ChaosRequest,
  Fault,
  FaultKind,
  Outcome,
  Run,
  Sample,
  Sighting,
} from './events.ts'
import { chargedIn, compare } from './ledger.ts'
import { felt, latencies } from './latency.ts'
import { notShown } from './report.ts'

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
const refused = (more: Partial<Answered>): Outcome => ({
  ...refusal(2, 429, 'rate_limit_exceeded'),
  ...more,
})
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
const counted = (dayTaken: number, dayUsed = dayTaken): Sample => ({
  client: 'a',
  seen: 0,
  atMs: START_MS,
  dayTaken,
  dayUsed,
  minuteTaken: dayTaken,
})

const calm: Run = {
  clients: [{ id: 'a', perMinute: LIMIT, isBystander: false, meetsNoKill: false }],
  requests: [
    request(0),
    request(1, { method: 'POST' }),
    request(2, { outcomes: [refusal(2, 429, 'rate_limit_exceeded')] }),
  ],
  sightings: [sighting(0), sighting(1, { method: 'POST' })],
  faults: [],
  samples: [],
  past: [],
  counted: new Map([['a', counted(2)]]),
}
/** The run with these in place of those of their number, and counters as they then are. */
function withChanged(
  changed: ChaosRequest,
  sightings: readonly Sighting[] = [],
  more: Partial<Run> = {},
): Run {
  const { number } = changed
  const all = [...calm.sightings.filter((one) => one.number !== number), ...sightings]
  return {
    ...calm,
    requests: [...calm.requests.slice(0, number), changed, ...calm.requests.slice(number + 1)],
    sightings: all,
    counted: new Map([['a', counted(new Set(all.map((one) => one.number)).size)]]),
    ...more,
  }
}
const found = (run: Run): string[] => compare(run).map(({ rule, detail }) => `${rule}: ${detail}`)
const post = (more: Partial<ChaosRequest> = {}) => request(1, { method: 'POST', ...more })
const postSeen = (more: Partial<Sighting> = {}) => sighting(1, { method: 'POST', ...more })
const [first = request(0)] = calm.requests
const untoldAt = (number: number): ChaosRequest => {
  const silence = { limit: undefined, remaining: undefined, resetSeconds: undefined }
  return request(number, { outcomes: [ok(number, silence)] })
}
const untold = untoldAt(0)
/** So many answers without quota headers, from more than a second after the store was back. */
function silent(count: number): Run {
  const numbers = [...Array(count).keys()]
  return {
    ...calm,
    requests: numbers.map(untoldAt),
    sightings: numbers.map((number) => sighting(number)),
    counted: new Map([['a', counted(count)]]),
    faults: [fault('store restarted', '', { untilMs: START_MS - 1_100, fromMs: START_MS - 2_000 })],
  }
}

describe('a run in which all is right', () => {
  it.each<[string, Run]>([
    ['is in order', calm],
    [
      'may have no quota headers in the first answer of each worker after the store was back',
      silent(2),
    ],
    [
      'may have a GET sent to a second backend',
      withChanged(first, [sighting(0), sighting(0, { backend: 'backend 2' })]),
    ],
    [
      'may have a 502 to a POST while a backend is dead',
      withChanged(post({ outcomes: [refusal(1, 502, 'bad_gateway')] }), [], {
        faults: [fault('backend dies', 'backend 1')],
      }),
    ],
    [
      'may have a cut connection while a gateway is killed, charged or not',
      withChanged(first, [], {
        requests: [{ ...first, outcomes: [cut] }, ...calm.requests.slice(1)],
        faults: [fault('gateway killed', 'gateway 1')],
        counted: new Map([['a', counted(2)]]),
      }),
    ],
    [
      'may leave what a killed process held',
      {
        ...calm,
        faults: [fault('gateway killed', 'gateway 1')],
        counted: new Map([['a', counted(3, 2)]]),
      },
    ],
    [
      'may have a few calls to the store that a busy machine was too slow for',
      withChanged(first, [], {
        requests: [
          { ...first, outcomes: [refusal(0, 503, 'service_unavailable')] },
          ...calm.requests.slice(1),
        ],
      }),
    ],
    [
      'may have no quota headers until subscriptions stand again after the store was away',
      withChanged(untold, [sighting(0)], {
        faults: [
          fault('store restarted', '', { untilMs: START_MS - 900, fromMs: START_MS - 2_000 }),
        ],
      }),
    ],
  ])('%s', (_, run) => {
    expect(found(run)).toEqual([])
  })
})

describe('a difference is found:', () => {
  it.each<[string, Run, string]>([
    ['no outcome', withChanged(request(0, { outcomes: [] }), [sighting(0)]), 'lost: 0 outcomes'],
    [
      'two outcomes',
      withChanged(request(0, { outcomes: [ok(0), cut] }), [sighting(0)]),
      'lost: 2 outcomes',
    ],
    [
      'a POST seen twice',
      withChanged(post(), [postSeen(), postSeen({ backend: 'backend 2' })]),
      'twice: POST seen 2 times',
    ],
    [
      'a GET seen three times',
      withChanged(first, [sighting(0), sighting(0), sighting(0)]),
      'twice: GET seen 3 times',
    ],
    [
      'a 2xx that no backend gave',
      withChanged(first),
      'lost: answered, but no backend has seen it',
    ],
    [
      'a POST answered without its body',
      withChanged(post(), [postSeen({ body: undefined })]),
      'lost: answered, but its body was cut off',
    ],
    [
      'another body',
      withChanged(post(), [postSeen({ body: 'wrong' })]),
      'wrong answer: another body',
    ],
    ['no quota headers', withChanged(untold, [sighting(0)]), 'wrong answer: no X-RateLimit-Limit'],
    [
      'no quota headers for the third time, long after the store was back',
      silent(3),
      'wrong answer: no X-RateLimit-Limit',
    ],
    [
      'the answer to another request',
      withChanged(request(0, { outcomes: [ok(0, { isOwn: false })] }), [sighting(0)]),
      'wrong answer: the answer to another request',
    ],
    [
      'a request in the name of another client',
      withChanged(first, [sighting(0, { client: 'b' })]),
      'stray: backend 1 saw GET 0 of b',
    ],
    [
      'a request that nobody made',
      withChanged(first, [sighting(0), sighting(9)]),
      'stray: backend 1 saw GET 9 of a',
    ],
    [
      'a 429 that a backend saw',
      withChanged(request(2, { outcomes: [refusal(2, 429, 'rate_limit_exceeded')] }), [
        sighting(2),
      ]),
      'wrong answer: 429 rate_limit_exceeded, but GET seen 1 times',
    ],
    [
      'a 429 without Retry-After',
      withChanged(
        request(2, {
          outcomes: [ok(2, { status: 429, code: 'rate_limit_exceeded', remaining: 0 })],
        }),
      ),
      'wrong answer: 429 with Retry-After undefined',
    ],
    [
      'a 429 of a window that was over',
      withChanged(request(2, { outcomes: [refused({ resetSeconds: 999 * 60 })] })),
      'wrong answer: refused by a window that ended 60200 ms before',
    ],
    [
      'a 429 that is to be waited for too short',
      withChanged(request(2, { outcomes: [refused({ retryAfterSeconds: 58 })] })),
      'wrong answer: Retry-After ends before the window',
    ],
    [
      'a 429 that is to be waited for too long',
      withChanged(request(2, { outcomes: [refused({ retryAfterSeconds: 62 })] })),
      'wrong answer: Retry-After ends after the window',
    ],
    [
      'Remaining below zero',
      withChanged(request(0, { outcomes: [ok(0, { remaining: -1 })] }), [sighting(0)]),
      'wrong answer: X-RateLimit-Remaining -1',
    ],
    [
      'the limit of another',
      withChanged(request(0, { outcomes: [ok(0, { limit: 7 })] }), [sighting(0)]),
      'wrong answer: X-RateLimit-Limit 7',
    ],
    [
      'no request id',
      withChanged(request(0, { outcomes: [ok(0, { requestId: undefined })] }), [sighting(0)]),
      'wrong answer: no X-Request-Id',
    ],
    [
      'one id for two requests',
      withChanged(request(0, { outcomes: [ok(1)] }), [sighting(0)]),
      'wrong answer: one id for several: id-1',
    ],
    [
      'a 502 when nothing had failed',
      withChanged(request(0, { outcomes: [refusal(0, 502, 'bad_gateway')] }), [sighting(0)]),
      'unexplained: 502 bad_gateway',
    ],
    [
      'a 502 long after the fault',
      withChanged(request(0, { outcomes: [refusal(0, 502, 'bad_gateway')] }), [sighting(0)], {
        faults: [fault('backend breaks', 'backend 1', { fromMs: 0, untilMs: 1_000 })],
      }),
      'unexplained: 502 bad_gateway',
    ],
    [
      'a GET that failed as a backend was dead',
      withChanged(request(0, { outcomes: [refusal(0, 502, 'bad_gateway')] }), [], {
        faults: [fault('backend dies', 'backend 1')],
      }),
      'unexplained: 502 bad_gateway',
    ],
    [
      'a cut connection at another gateway than the killed one',
      withChanged(request(0, { outcomes: [cut] }), [sighting(0)], {
        faults: [fault('gateway killed', 'gateway 2')],
      }),
      'unexplained: cut before an answer',
    ],
    [
      'a cut connection at a gateway that was told to stop',
      withChanged(request(0, { outcomes: [cut] }), [sighting(0)], {
        faults: [fault('gateway restarted', 'gateway 1')],
      }),
      'unexplained: cut before an answer',
    ],
    [
      'a bystander refused',
      { ...calm, clients: [{ id: 'a', perMinute: LIMIT, isBystander: true, meetsNoKill: false }] },
      'unexplained: 429 rate_limit_exceeded',
    ],
    [
      'one more than the limit',
      withMany(LIMIT + 1),
      `over a limit: ${LIMIT + 1} of ${LIMIT} in minute 1000`,
    ],
    [
      'a request charged twice',
      { ...calm, counted: new Map([['a', counted(3)]]) },
      'charge: charged more than backends saw: taken 3, used 3, seen 2, maybe 0, left 0',
    ],
    [
      'a request not charged',
      { ...calm, counted: new Map([['a', counted(1)]]) },
      'charge: charged less than backends saw: taken 1, used 1, seen 2, maybe 0, left 0',
    ],
    [
      'tokens not given back',
      { ...calm, counted: new Map([['a', counted(3, 2)]]) },
      'charge: not given back: taken 3, used 2, seen 2, maybe 0, left 0',
    ],
    [
      'tokens not given back to a client that met no kill',
      {
        ...calm,
        clients: calm.clients.map((client) => ({ ...client, meetsNoKill: true })),
        faults: [fault('gateway killed', 'gateway 2')],
        counted: new Map([['a', counted(3, 2)]]),
      },
      'charge: not given back: taken 3, used 2, seen 2, maybe 0, left 0',
    ],
    [
      'counters behind what was seen, in the middle',
      { ...calm, samples: [{ ...counted(1), seen: 2 }] },
      'charge: 1 taken when 2 were seen',
    ],
    [
      'counters beyond the limit, in the middle',
      { ...calm, samples: [counted(LIMIT + 1)] },
      `charge: ${LIMIT + 1} of ${LIMIT} taken in minute 1000`,
    ],
  ])('%s', (_, run, difference) => {
    expect(found(run)).toContain(difference)
  })

  it('more 503 than a busy machine is good for', () => {
    const many = withMany(LIMIT)
    const starved = Array.from({ length: 6 }, (_, at) =>
      request(LIMIT + at, { outcomes: [refusal(LIMIT + at, 503, 'service_unavailable')] }),
    )
    expect(found({ ...many, requests: [...many.requests, ...starved] })).toEqual([
      'unexplained: 6 of 11: 503 service_unavailable, 503 overloaded',
    ])
  })
})

function withMany(count: number): Run {
  const numbers = Array.from({ length: count }, (_, at) => at)
  return {
    ...calm,
    requests: numbers.map((number) => request(number)),
    sightings: numbers.map((number) => sighting(number)),
    counted: new Map([['a', counted(count)]]),
  }
}

it('a failover lets one lease more through, and not more', () => {
  const client = { id: 'a', perMinute: 10, isBystander: false, meetsNoKill: false }
  const faults = [fault('store failed over')]
  const offered = (count: number): string[] => {
    const { requests, sightings, counted: counters } = withMany(count)
    const told = requests.map((one) => ({ ...one, outcomes: [ok(one.number, { limit: 10 })] }))
    return found({
      clients: [client],
      faults,
      requests: told,
      sightings,
      samples: [],
      past: [],
      counted: counters ?? new Map(),
    })
  }
  expect(offered(11)).toEqual([])
  expect(offered(12)).toEqual(['over a limit: 12 of 10 in minute 1000'])
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
  const clients = [{ id: 'a', perMinute: LIMIT, isBystander: true, meetsNoKill: false }]
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
