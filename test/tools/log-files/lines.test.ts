/** A line of each form: what is read of it, and that the reader of bytes says what JSON.parse says. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Fields, NOTHING, NUMBER, ownFields, STRING } from '../../../src/tools/log-files/fields.ts'
import { readParsed } from '../../../src/tools/log-files/parsed.ts'
import { scan } from '../../../src/tools/log-files/scan.ts'
import { createTimeReader, parseTime } from '../../../src/tools/log-files/times.ts'
import { words } from '../../support/words.ts'
import { access, readLogs, START_MS, write } from './logs.ts'
import { anyCharacter } from '../../support/any-character.ts'

/** Of each field: nothing, true, a number or a text. */
const saidBy = ({ kinds, numbers, bytes, starts, ends }: Fields) =>
  ownFields.map((_, at) => {
    if (kinds[at] === NOTHING) return undefined
    if (kinds[at] === NUMBER) return numbers[at]
    return kinds[at] === STRING ? bytes.toString('utf8', starts[at], ends[at]) : true
  })

function bothSay(line: string) {
  const [scanned, parsed] = [new Fields(), new Fields()]
  const end = scan(Buffer.from(`junk${line}\n{"event":"access"}\n`), 4, scanned)
  readParsed(JSON.parse(line) as Record<string, unknown>, parsed)
  return { end, scanned: saidBy(scanned), parsed: saidBy(parsed) }
}

describe('the reader of bytes', () => {
  const names = fc.oneof(fc.constantFrom(...ownFields, 'id', 'path', 'constructor'), fc.string())
  const numbers = fc.oneof(
    fc.nat(),
    fc.double(),
    fc.maxSafeInteger(),
    fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map((micros) => micros / 1_000),
  )
  const texts = fc.oneof(
    fc.string(),
    fc.string({ unit: anyCharacter }),
    fc.constantFrom('access', ''),
  )
  const values = fc.oneof(numbers, numbers, texts, texts, fc.boolean(), fc.jsonValue())

  it('says what JSON.parse says, or leaves the line to it', () => {
    let taken = 0
    fc.assert(
      fc.property(fc.array(fc.tuple(names, values), { maxLength: 12 }), (pairs) => {
        // Fields may stand twice.
        const line = `{${pairs.map((pair) => pair.map((part) => JSON.stringify(part)).join(':')).join()}}`
        const { end, scanned, parsed } = bothSay(line)
        if (end === 0) return
        taken++
        expect(end).toBe(4 + line.length)
        expect(scanned).toEqual(parsed)
      }),
      { numRuns: 1_000, seed: 1 },
    )
    expect(taken).toBeGreaterThan(30)
  })

  it('is exact up to the largest safe number', () => {
    const line = '{"status":9007199254740991,"dayLeft":900719925474.0985}'
    const { end, scanned, parsed } = bothSay(line)
    expect(end).not.toBe(0)
    expect(scanned).toEqual(parsed)
  })

  it('takes each line that our writer makes of plain text, so that none is slow', () => {
    const line = access(0, { agoMs: -0.003, totalMs: 0.25, dayLeft: 9_007_199_254, degraded: true })
    expect(bothSay(line.trimEnd())).toMatchObject({ end: 3 + line.length })
  })

  const slow = words('{} {"a":1 {"a":01} {"a":1.} {"a":tru} {"a":-} {"a":1}x {a:1}')
  it.each([...slow, '{"a":"\u0001"}', ' {"a":1}'])('leaves %j to JSON.parse', (line) => {
    expect(scan(Buffer.from(`${line}\n`), 0, new Fields())).toBe(0)
  })
})

describe('what became of a request', () => {
  const quota = { refusal: 'rate_limit_exceeded', status: 429, agoMs: 0.1 }
  it.each([
    ['admitted', { agoMs: 0.1, backend: 'a' }],
    ['admitted', { agoMs: 0.1, refundAgoMs: 0.05, refusal: 'gateway_timeout', status: 504 }],
    ['free', { agoMs: 0.1, refusal: 'not_found', status: 404 }],
    ['free', { agoMs: 0.1, refusal: 'overloaded', status: 503 }],
    ['minute', { ...quota, minuteLeft: 0, dayLeft: 3 }],
    ['day', { ...quota, minuteLeft: 0, dayLeft: 0 }],
    ['day', { ...quota, window: 'day', degraded: true }],
    ['ban', { agoMs: 0.1, refusal: 'api_key_banned', status: 429 }],
    ['nobody', { plan: undefined, refusal: 'invalid_api_key', status: 401 }],
    // Of logs of before.
    ['admitted', { totalMs: 30 }],
    ['admitted', { totalMs: 30, refusal: 'concurrency_limit_exceeded', status: 429 }],
    ['free', { totalMs: 30, refusal: 'service_unavailable', degraded: true, status: 503 }],
  ])('is %s: %j', async (outcome, fields) => {
    const { requests } = await readLogs([write(access(0, fields))])
    expect(requests.map((request) => request.outcome)).toEqual([outcome])
  })
})

describe('times', () => {
  it.each([
    ['2026-11-03T14:07:31.123Z', 0],
    ['2026-11-03T15:07:31.123456+01:00', 0],
    ['[03/Nov/2026:15:07:31 +0100]', -123],
    ['1793714851.123', 0],
    ['1793714851123', 0],
    ['1793714851123000000', 0],
    ['03/Nov/2026:14:07:60 +0000', 28_877],
    ['2026-11-03T14:07:60Z', 28_877],
  ])('%s', (text, afterMs) => {
    expect(parseTime(text) - START_MS).toBeCloseTo(afterMs, 3)
  })

  const none = words(`yesterday 2026-13-03T14:07:31Z 2026-02-31T14:07:31Z 2026-11-03T14:07:61Z
    2026-11-03T24:00:00Z 2026-11-03T14:07:31+24:00 99999999`)
  const noneOfServers = ['31/Feb/2026:14:07:31 +0000', '03/Nov/2026:14:07:61 +0000']
  const noneOfZones = ['03/Nov/2026:14:07:31 +9900', '03/Nov/2026:14:07:31 +0060']
  it.each(['', ...none, ...noneOfServers, '03/Nov/2026:24:00:00 +0000', ...noneOfZones])(
    '%j is none',
    (text) => {
      expect(parseTime(text)).toBeNaN()
    },
  )

  it('of one minute are alike to the reader that keeps the minute, leap seconds too', () => {
    const read = createTimeReader()
    for (const seconds of ['31.123', '59.999', '60.000', '61.000', '99.000']) {
      const text = `2026-11-03T14:07:${seconds}Z`
      expect(read(Buffer.from(text), 0, text.length), text).toBe(parseTime(text))
    }
  })
})

describe('logs of other servers', () => {
  const combined = (address: string, user: string, status: number) =>
    `${address} - ${user} [03/Nov/2026:14:07:31 +0000] "GET /v1/pets?a=\\"b HTTP/1.1" ${status} 512 "-" "curl/8.5"\n`
  const at = '-123 ms'
  const unknown = { at, outcome: 'unknown' }

  it('in the combined format tell the user, or the address', async () => {
    const lines = [
      combined('10.0.0.1', 'acme', 200),
      `v.example:443 ${combined('::1', '-', 404)}`,
      // Blanks in users are not taken for what follows the name of a host.
      combined('2001:db8::1', 'user name', 200),
      `[::1]:80 ${combined('::2', 'b c', 200)}`,
    ]
    const file = write(lines.join(''))
    const callers = ['acme', undefined, 'user name', 'b c']
    expect((await readLogs([file])).requests).toEqual(
      callers.map((caller) => ({ ...unknown, caller })),
    )
    const byAddress = await readLogs([file], { fields: { client: 'address' } })
    expect(byAddress.callers).toEqual(['10.0.0.1', '::1', '2001:db8::1', '::2'])
  })

  it('tell of nobody where their server let nobody in', async () => {
    const file = write([200, 401, 403, 404].map((status) => combined('::1', 'a', status)).join(''))
    const { requests } = await readLogs([file])
    const outcomes = requests.map(({ outcome }) => outcome)
    expect(outcomes).toEqual(['unknown', 'nobody', 'nobody', 'unknown'])
  })

  const time = '2026-11-03T14:07:31Z'
  const ts = START_MS / 1_000 - 0.123
  it.each([
    [{ client: 'remote_user' }, { remote_user: 'acme', time_iso8601: time, status: '200' }],
    [{ client: 'request.user' }, { ts, status: 200, request: { user: 'acme' } }],
    [
      { client: 'ClientUsername' },
      { ClientUsername: 'acme', StartUTC: time, DownstreamStatus: 200 },
    ],
    [
      { client: 'a.b', time: 'x', status: 's' },
      { 'a.b': 'acme', x: START_MS - 123, s: 200 },
    ],
  ])('in JSON tell the field that is named: %j, as nginx, Caddy and Traefik', async (...given) => {
    const [fields, line] = given
    const file = write(`${JSON.stringify(line)}\n`)
    expect((await readLogs([file], { fields })).requests).toEqual([{ ...unknown, caller: 'acme' }])
  })
})
