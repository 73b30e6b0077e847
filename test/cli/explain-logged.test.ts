/** `tollgate explain REQUEST_ID --log FILE`, with `--config FILE` and without: what it finds, what it explains, and how it fails. */
import { gzipSync } from 'node:zlib'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { loadConfig } from '../../src/config/clients/load.ts'
import type { Explanation } from '../../src/insight/api/explain.ts'
import { typed } from '../support/command-line.ts'
import { configText } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'

const config = temporaryFile('gateway.yaml', configText({ upstreams: ['http://127.0.0.1:9'] }))
const { revision } = await loadConfig(config, {})
const time = (second: number): string =>
  new Date(Date.UTC(2026, 10, 3, 14) + second * 1_000).toISOString()
const free = { client: 'free-client', key: 'free-1', plan: 'free' }
const usual = { event: 'access', method: 'GET', path: '/v1/pets', status: 429, agoMs: 500 }
const access = (second: number, id: string, more: object): object => {
  return { time: time(second), ...usual, id, rev: revision.slice(0, 6), ...free, ...more }
}
const quota = { refusal: 'rate_limit_exceeded', minuteLeft: 0, dayLeft: 940 }
const left = { minuteLeft: 3, dayLeft: 900 }
const pro = { key: 'pro-1', client: 'pro-client', plan: 'pro' }
const backend = 'http://127.0.0.1:9'
const reset = { status: 502, refusal: 'bad_gateway', cause: 'ECONNRESET', backend }
const turned = { refundAgoMs: 1, refusal: 'concurrency_limit_exceeded' }
const cutOff = { refusal: 'rate_limit_exceeded', window: 'day', degraded: true }
const ok = { status: 200, route: 'listPets', backend, backendMs: 4.1, minuteLeft: 2, dayLeft: 899 }
const nobody = { client: undefined, key: undefined, plan: undefined }
const log = join(temporaryFolder(), 'access.log.gz')
const lines = [
  access(31, 'limited', quota),
  { time: time(32), event: 'keyBanned', key: 'free-1', forMs: 60_000, strikes: 20 },
  access(33, 'struck', quota),
  access(40, 'banned', { refusal: 'api_key_banned' }),
  access(41, 'failed', { ...reset, ...left, ...pro }),
  access(42, 'turned', { ...turned, ...left }),
  access(43, 'sent', ok),
  access(44, 'left', { status: 499, route: 'listPets' }),
  access(45, 'cutOff', cutOff),
  access(46, 'preflight', { method: 'OPTIONS', route: 'listPets', status: 204, ...nobody }),
  access(50, 'twice', quota),
  access(51, 'twice', quota),
  access(52, 'earlier', { ...quota, rev: 'abcdef' }),
  access(53, 'older', { status: 200, agoMs: undefined, totalMs: 2_000 }),
]
writeFileSync(log, gzipSync(lines.map((line) => JSON.stringify(line)).join('\n')))
const explained = async (...args: readonly string[]) => {
  const { code, stdout, stderr } = await typed(['explain', ...args, '--log', log, '--json'])
  return { code, stderr, explanation: code === 0 ? (JSON.parse(stdout) as Explanation) : undefined }
}

const limited = { window: 'minute', at: time(30.5), client: 'free-client' } as const
it.each<[string, Partial<Explanation>, RegExp]>([
  ['limited', { ...limited, code: 'rate_limit_exceeded', retryAfterSeconds: 30 }, /^$/],
  ['banned', { code: 'api_key_banned', retryAfterSeconds: 53, decidedBy: 'check-ban' }, /^$/],
  [
    'failed',
    { status: 502, code: 'bad_gateway', decidedBy: 'forward', charged: true, change: [] },
    /answered 502 bad_gateway, from http:.*: ECONNRESET; the stages as known now say sent$/,
  ],
  ['struck', { code: 'rate_limit_exceeded', decidedBy: 'take-quota' }, /^$/],
  [
    'turned',
    { code: 'concurrency_limit_exceeded', decidedBy: 'take-turn', charged: false, change: [] },
    /handed back.*answered 429 concurrency_limit_exceeded; the stages/,
  ],
])(
  'explains %s by the configuration, and says what does not follow from it',
  async (id, expected, recorded) => {
    const { explanation } = await explained(id, '--config', config)
    expect(explanation).toMatchObject(expected)
    expect(explanation?.recorded.join()).toMatch(recorded)
    const places = explanation?.stages.flatMap(({ config: place }) => place ?? []).join()
    expect(places).toMatch(/gateway\.yaml:\d+/)
  },
)

it.each<[string, string, Partial<Explanation>, string]>([
  ['limited', 'take-quota refuse: minute 0 left, day 940 left', limited, ''],
  ['banned', 'check-ban refuse: until 14:01:32Z, ban for strikes, 1 min; 20 strikes', {}, ''],
  [
    'sent',
    'forward sent: http://127.0.0.1:9',
    { status: 200, code: null, charged: true, route: 'listPets' },
    'answered 200, from http://127.0.0.1:9 after 4.1 ms; ',
  ],
  ['left', 'forward pass: no backend has seen it', { status: 499, charged: false }, ''],
  [
    'cutOff',
    'take-quota refuse: The request quota is used up.',
    { window: 'day' },
    'the store was away, so store.onOutage decided; ',
  ],
  ['preflight', 'match-route pass: route listPets', { status: 204, client: null }, ''],
])(
  'tells of %s without a configuration what its line says, and that the rest needs one: %s',
  async (id, decided, expected, recorded) => {
    const { explanation: told } = await explained(id)
    const by = told?.stages.find(({ stage }) => stage === told.decidedBy)
    expect(`${by?.stage} ${by?.verdict}: ${by?.rule}`).toBe(decided)
    expect(told).toMatchObject({ ...expected, change: [], assumed: null })
    expect(told?.stages.filter(({ config: place }) => place !== null)).toEqual([])
    expect(told?.recorded.join('; ')).toBe(
      `${recorded}settings, limits and what would change the answer need --config FILE of revision ${revision.slice(0, 6)}`,
    )
  },
)

const by = ['--config', config]
it.each<[string, readonly string[], number, RegExp]>([
  ['one that is not there', ['none'], 1, /unknown_request.*14 lines were read.*--log FILE/],
  ['one of several', ['twice'], 1, /several_requests.*line 11 at .*--at 2026-11-03T14:00:49/],
  [
    'one that another configuration decided',
    ['earlier'],
    2,
    /other_revision.*under revision abcdef; .*gateway\.yaml is \w+.*of that time.*--config FILE/,
  ],
  ['one with a use', ['limited', '--used', 'day=1'], 2, /usage.*--used.*not of --log/],
])('says how to mend it: %s', async (_, args, code, message) => {
  const failed = await explained(...args, ...by)
  expect([failed.code, failed.stderr]).toEqual([code, expect.stringMatching(message)])
})

it('takes the one of several that is named by its time', async () => {
  const { explanation } = await explained('twice', ...by, '--at', '2026-11-03T14:00:50')
  expect(explanation?.at).toBe(time(50.5))
})

it('takes what an earlier version has logged of a request, which began before its line and was charged', async () => {
  expect((await explained('older')).explanation).toMatchObject({ at: time(51), charged: true })
})
