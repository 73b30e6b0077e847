/** What a backend has seen of a request is charged, whatever the client is answered: broken requests are no way to free work. */
import { describe, expect, it } from 'vitest'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { keys, plansBlock, request, until, openWire } from './wire.ts'

const chunk = (bytes: number): string => `${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`
const LIMIT = 10
const REQUESTS = 40

describe.concurrent('requests that a backend has begun to receive', () => {
  it.for([
    { what: 'turn out broken', status: 400, rest: 'ZZZ\r\n', atOnce: 8 },
    { what: 'grow too large', status: 413, rest: chunk(3_000), atOnce: 8 },
    { what: 'never end', status: 408, rest: '', atOnce: REQUESTS },
  ])(
    'are charged when they $what: $status',
    async ({ status, rest, atOnce }, { onTestFinished }) => {
      const heads = new Set<string>()
      let refused = 0
      const timeouts = `timeouts: { headers: 1s, request: ${status === 408 ? '2s' : '60s'}, drain: 1s }`
      const { connect, charged } = await openWire({
        requestsMayBreakOff: true,
        onHead: ({ target }) => heads.add(target),
        server: `${timeouts}\n  limits: { bodyBytes: 4KiB, bufferedBody: 1KiB }`,
        blocks: {
          plans: plansBlock(`perMinute: ${LIMIT}, perDay: 10000, concurrent: 200`),
          bans: 'bans: { strikes: 1000, within: 1m, duration: 1m }',
        },
        onTestFinished,
      })
      const send = async (target: string): Promise<void> => {
        const client = await connect()
        const fields = ['Transfer-Encoding: chunked']
        client.send(request('POST', target, { key: keys.free, fields, body: chunk(2_000) }))
        await until(() => heads.has(target) || client.received().closed, 'its head or an answer')
        client.send(rest)
        const { responses } = await client.waitFor(({ closed }) => closed)
        const answered = responses[0]?.status
        if (heads.has(target)) expect(answered).toBe(status)
        // What a busy machine held up before a backend had seen it is free, and is sent again.
        else if (answered === 429) refused++
        else await send(target)
      }
      const lane = async (_: unknown, from: number): Promise<void> => {
        for (let nth = from; nth < REQUESTS; nth += atOnce) await send(`/v1/pets?${nth}`)
      }
      await minuteWithAtLeast(15_000)
      await Promise.all(Array.from({ length: atOnce }, lane))
      expect(await charged(keys.free)).toBe(heads.size)
      expect(heads.size).toBe(LIMIT)
      expect(refused).toBe(REQUESTS - LIMIT)
    },
  )
})
