/** A line of each form, and what is read of it. */
import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { linesOf, MAX_LINE_CHARS } from '../../../src/tools/log-files/input.ts'
import { parseTime } from '../../../src/tools/log-files/row.ts'
import { words } from '../../support/words.ts'
import { access, readLogs, START_MS, write } from './logs.ts'

describe('lines', () => {
  async function split(chunks: readonly Buffer[]): Promise<string[]> {
    const all: string[] = []
    for await (const lines of linesOf(Readable.from(chunks))) all.push(...lines)
    return all
  }

  it.each([1, 2, 3, 7, 100])('are the same where a chunk ends after %i bytes', async (size) => {
    const text = 'one\n\nschlüssel\n\u{1f436}\r\nlast'
    const bytes = Buffer.from(text)
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    )
    expect(await split(chunks)).toEqual(text.split('\n'))
  })

  it('are cut where they are much too long, and the next one is whole', async () => {
    const chunks = Array.from({ length: 50 }, () => Buffer.alloc(65_536, 'x'))
    const [long = '', ...others] = await split([...chunks, Buffer.from('y\nnext\n')])
    expect(long.length).toBeGreaterThan(MAX_LINE_CHARS)
    expect(long.length).toBeLessThan(2 * MAX_LINE_CHARS)
    expect(others).toEqual(['next'])
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
    ['free', { agoMs: 30, refusal: 'service_unavailable', degraded: true, status: 503 }],
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
  ])('%s', (text, afterMs) => {
    expect(parseTime(text) - START_MS).toBeCloseTo(afterMs, 3)
  })

  const none = words(`yesterday 2026-13-03T14:07:31Z 2026-11-03T14:07:61Z
    2026-11-03T24:00:00Z 2026-11-03T14:07:31+24:00 99999999`)
  const noneOfServers = ['31/Fab/2026:14:07:31 +0000', '03/Nov/2026:14:07:61 +0000']
  const noneOfZones = ['03/Nov/2026:14:07:31 +9900', '03/Nov/2026:14:07:31 +0060']
  it.each(['', ...none, ...noneOfServers, '03/Nov/2026:24:00:00 +0000', ...noneOfZones])(
    '%j is none',
    (text) => {
      expect(parseTime(text)).toBeNaN()
    },
  )
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
