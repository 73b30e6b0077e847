/** One request in a log of ours: found as it is read, whatever else stands there. */
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { findRequests, MOST_FOUND } from '../../../src/tools/log-files/find-request.ts'
import { write } from './logs.ts'

const time = (second: number): string =>
  new Date(Date.UTC(2026, 10, 3, 14, 0, second)).toISOString()
const line = (second: number, fields: object): string =>
  JSON.stringify({ time: time(second), level: 'info', ...fields })
const access = (second: number, id: string, more = {}): string =>
  line(second, { event: 'access', id, client: 'acme', key: 'acme-1', status: 200, ...more })
const until = time(600)
const after = { since: time(7), until, reason: 'abuse', by: 'operator' }
const log = [
  line(0, { event: 'configTaken', revision: 'aaaa' }),
  access(1, 'one', { path: '/v1/of-"two"' }),
  'not JSON, but it names "two"',
  line(2, { event: 'keyBanned', client: 'acme', key: 'acme-1', forMs: 60_000, strikes: 20 }),
  access(3, 'two', { status: 429, refusal: 'api_key_banned' }),
  `{"event":"access","id":"two","torn":"${'x'.repeat(70_000)}"}`,
  line(4, { event: 'audit', action: 'liftBan', key: 'acme-1', after: null }),
  line(5, { event: 'configTaken', revision: 'bbbb' }),
  access(6, 'three'),
  line(7, { event: 'audit', action: 'ban', key: 'acme-1', after }),
  access(8, 'four'),
  access(9, 'five').slice(0, -9),
].join('\n')

describe('a request that is looked for in a log', () => {
  it('is found with its line, the revision and the ban that were told before', async () => {
    const file = write(log)
    const of = async (id: string) => {
      const { found, lines, isCutOff } = await findRequests(file, id)
      expect([lines, isCutOff]).toEqual([12, false])
      return found.map(({ fields, row: _row, ...one }) => ({ ...one, status: fields['status'] }))
    }
    const times = { startedMs: Date.parse(time(2)), untilMs: Date.parse(time(62)) }
    const ban = { ...times, reason: '20 strikes', count: 0 }
    const other = { startedMs: Date.parse(time(7)), untilMs: Date.parse(until), reason: 'abuse' }
    const none = { revision: 'bbbb', ban: undefined, status: 200 }
    expect(await of('two')).toEqual([{ line: 5, revision: 'aaaa', ban, status: 429 }])
    expect(await of('three')).toEqual([{ ...none, line: 9 }])
    expect(await of('four')).toMatchObject([{ line: 11, ban: { ...other, by: 'operator' } }])
    expect(await of('five')).toEqual([])
    expect(await of('tw')).toEqual([])
  })

  it('is found before the place where compressed data breaks off, which is told', async () => {
    const more = Array.from({ length: 5_000 }, (_, at) => access(9, `x-${at}-${Math.sin(at)}`))
    const whole = gzipSync([log, ...more].join('\n'))
    const cut = await findRequests(write(whole.subarray(0, whole.length / 2)), 'two')
    expect([cut.found.length, cut.isCutOff]).toEqual([1, true])
  })

  it('is told as often as it is there, up to a bound', async () => {
    const many = Array.from({ length: 50 }, (_, at) => access(at, 'same')).join('\n')
    expect((await findRequests(write(many), 'same')).found).toHaveLength(MOST_FOUND)
  })
})
