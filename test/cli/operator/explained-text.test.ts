/** How an explanation reads on a terminal; the words are those of the page. */
import { expect, it } from 'vitest'
import { wordsOf } from '../../../src/admin/explain/words.ts'
import type { ExplainedStage, Explanation, StageName } from '../../../src/insight/api/explain.ts'
import { explainedLines } from '../../../src/cli/operator/explain.ts'

type Row = readonly [StageName, ExplainedStage['verdict'], string, string | null]

const stage = ([name, verdict, rule, config]: Row): ExplainedStage => ({
  stage: name,
  verdict,
  rule,
  config,
  numbers: {},
})
const first: Row[] = [
  ['accept', 'pass', 'framing, sizes within limits', 'gateway.yaml:21'],
  ['match-route', 'pass', 'GET /pets/{petId}, deprecated', 'gateway.yaml:179'],
  ['authenticate', 'pass', 'key until 2027-06-30, plan pro', 'acme.yaml:4'],
]
const sent: Explanation = {
  at: '2026-11-03T14:07:31.402Z',
  method: 'GET',
  target: '/v1/pets/7',
  key: 'acme-1',
  client: 'acme',
  plan: 'pro',
  route: 'getPet',
  status: 200,
  code: null,
  window: null,
  retryAfterSeconds: null,
  backend: '10.0.0.1:3000',
  stages: [
    ...first.map(stage),
    stage(['forward', 'sent', 'least requests of 1 up; 18 ms', 'gateway.yaml:44']),
  ],
  decidedBy: 'forward',
  charged: true,
  change: [
    'the 259th from here before 14:08:00Z is refused (minute)',
    'the 1,881st before 00:00Z (day)',
  ],
  assumed: null,
  recorded: [],
}
const refused: Explanation = {
  ...sent,
  target: '/v1/pets',
  route: 'listPets',
  status: 429,
  code: 'rate_limit_exceeded',
  window: 'day',
  retryAfterSeconds: 35_549,
  backend: null,
  stages: [
    ...first.map(stage),
    stage(['check-ban', 'refuse', 'until 14:14:02Z, 5th ban, 16 min; 20 strikes in 41 s', null]),
    stage(['forward', 'notReached', '', null]),
  ],
  decidedBy: 'check-ban',
  charged: false,
  change: ['wait 9 h 52 min', 'plans.pro.perDay above 10000', 'tollgate usage reset bolt --day'],
  assumed: { minute: { used: 0, limit: 300 }, day: { used: 10_000, limit: 10_000 } },
  recorded: ['the store was away', 'another revision was in force, 3f9c21'],
}
const nowMs = Date.parse('2026-11-03T23:00:00Z')

it('says what was charged, and on which backend', () => {
  expect(explainedLines(sent, 80, nowMs)).toEqual(
    expect.arrayContaining([
      '= 200 from 10.0.0.1:3000, route getPet',
      '* forward      sent least requests of 1 up; 18 ms  gateway.yaml:44',
      'Charged: one in each window.',
    ]),
  )
})

it('folds what is longer than a line, says what was assumed and what does not follow from the rules', () => {
  const lines = explainedLines(refused, 80, nowMs)
  expect(lines).toEqual([
    'GET /v1/pets  key acme-1  client acme  14:07:31Z',
    '= 429 rate_limit_exceeded by day, Retry-After 35549, route listPets',
    '  accept       pass   framing, sizes within limits         gateway.yaml:21',
    '  match-route  pass   GET /pets/{petId}, deprecated        gateway.yaml:179',
    '  authenticate pass   key until 2027-06-30, plan pro       acme.yaml:4',
    '* check-ban    refuse until 14:14:02Z, 5th ban, 16 min; 20',
    '                      strikes in 41 s',
    '  forward      –',
    'Charged: no.',
    'Otherwise: wait 9 h 52 min; or plans.pro.perDay above 10000; or tollgate usage',
    '  reset bolt --day',
    'Assumed: minute 0/300, day 10,000/10,000',
    'Recorded then, not derived: the store was away; another revision was in force,',
    '  3f9c21',
  ])
  const words = (columns: number): string[] =>
    explainedLines(refused, columns, nowMs).join(' ').split(/\s+/).sort()
  for (const columns of [40, 60, 100]) expect(words(columns)).toEqual(words(10_000))
})

it.each<[Partial<Explanation>, string]>([
  [{ status: null, backend: null }, 'sent to a backend, route getPet'],
  [{ status: 404, route: null }, '404 from 10.0.0.1:3000'],
  [{ status: 200, route: null, decidedBy: 'accept' }, '200 from the gateway itself'],
  [{ status: 401, code: 'missing_api_key', backend: null }, '401 missing_api_key, route getPet'],
])('gives the answer of %j in a line', (change, answer) => {
  expect(wordsOf({ ...sent, ...change }, nowMs).answer).toBe(answer)
})

it('lets nothing of a request act upon the terminal', () => {
  const line = explainedLines({ ...sent, target: '/\u001b[2J\u202e' }, 80, nowMs)[0]
  expect(line).toContain('GET /\\u{1b}[2J\\u{202e}  key')
})
