/** What a backend has seen of a request is charged, whatever the client is answered: broken requests are no way to free work. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { engines, keys, request, until, withWire } from './wire.ts'

const chunk = (bytes: number): string => `${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`
const LIMIT = 60

const broken = [
  { what: 'turn out broken', status: 400, rest: 'ZZZ\r\n', requests: 300, atOnce: 20 },
  { what: 'grow too large', status: 413, rest: chunk(3_000), requests: 300, atOnce: 20 },
  { what: 'never end', status: 408, rest: '', requests: 120, atOnce: 120 },
]

describe.concurrent.each(engines)(
  'requests through %s that a backend has begun to receive',
  (engine) => {
    it.each(broken)(
      'are charged when they $what: $status',
      async (row) => {
        const heads = new Set<string>()
        const statuses: (number | undefined)[] = []
        await withWire(
          {
            engine,
            requestsMayBreakOff: true,
            onHead: ({ target }) => heads.add(target),
            blocks: {
              server: `server:
  listen: "127.0.0.1:0"
  limits: { bodyBytes: 4KiB, bufferedBody: 1KiB }
  timeouts: { headers: 2s, request: ${row.status === 408 ? '2s' : '20s'}, drain: 1s }`,
              plans: `plans:
  free: { perMinute: ${LIMIT}, perDay: 10000, concurrent: 200 }
  pro: { perMinute: 300, perDay: 10000 }
  business: { perMinute: 1000, perDay: 100000 }
  enterprise: { custom: true }`,
              bans: 'bans: { strikes: 1000, within: 1m, duration: 1m }',
            },
          },
          async ({ connect, charged }) => {
            const send = async (target: string): Promise<void> => {
              const client = await connect()
              const fields = ['Transfer-Encoding: chunked']
              client.send(request('POST', target, { key: keys.free, fields, body: chunk(2_000) }))
              await until(
                () => heads.has(target) || client.received().closed,
                'its head or an answer',
              )
              await sleep(40)
              client.send(row.rest)
              const { responses } = await client.waitFor(({ closed }) => closed)
              statuses.push(responses[0]?.status)
            }
            const lane = async (_: unknown, from: number): Promise<void> => {
              for (let nth = from; nth < row.requests; nth += row.atOnce)
                await send(`/v1/pets?${nth}`)
            }
            await minuteWithAtLeast(25_000)
            await Promise.all(Array.from({ length: row.atOnce }, lane))
            expect(await charged(keys.free)).toBe(heads.size)
          },
        )
        expect(heads.size).toBe(LIMIT)
        expect(statuses.filter((status) => status === row.status)).toHaveLength(LIMIT)
        expect(statuses.filter((status) => status === 429)).toHaveLength(row.requests - LIMIT)
      },
      90_000,
    )
  },
)
