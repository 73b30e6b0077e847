/** server.structuredQuotaHeaders: what a client library of an older draft reads, with the structured pair and without it. */
import { parseRateLimit } from 'ratelimit-header-parser'
import { describe, expect, it } from 'vitest'
import { backed } from '../support/backed.ts'
import { keys, minuteWithAtLeast } from '../support/gateway.ts'
import { rawExchange } from '../support/raw-client.ts'
import { answer } from '../support/raw-backend.ts'

const blocks = (server: string): Record<string, string> => ({
  server: `server: { listen: "127.0.0.1:0"${server} }`,
  plans:
    'plans: { free: { perMinute: 2, perDay: 50 }, pro: { perMinute: 300, perDay: 10000 }, business: { perMinute: 1000, perDay: 100000 }, enterprise: { custom: true } }',
  bans: 'bans: { strikes: 1, grace: 0s }',
})

const start = (server: string) =>
  backed({
    respond: () =>
      answer(200, 'ok', 'RateLimit: limit=9, remaining=9, reset=9', 'RateLimit-Policy: 9;w=9'),
    blocks: blocks(server),
  })

describe('server.structuredQuotaHeaders', () => {
  it('left out lets ratelimit-header-parser read true numbers from every answer', async () => {
    const { gateway } = await start(', structuredQuotaHeaders: false')
    await minuteWithAtLeast()
    const read = async (key?: string, path = '/v1/pets'): Promise<object> => {
      const response = await gateway.fetch(path, key === undefined ? {} : { key })
      await response.arrayBuffer()
      for (const name of ['ratelimit', 'ratelimit-policy'])
        expect(response.headers.get(name), `${name} of a ${response.status}`).toBeNull()
      const { limit, used, remaining, reset } = parseRateLimit(response) ?? {}
      expect(reset?.getTime()).toBe(Number(response.headers.get('x-ratelimit-reset')) * 1000)
      return { status: response.status, limit, used, remaining }
    }
    expect(await read(keys.free)).toEqual({ status: 200, limit: 2, used: 1, remaining: 1 })
    expect(await read(keys.free)).toEqual({ status: 200, limit: 2, used: 2, remaining: 0 })
    for (let again = 0; again < 2; again++)
      expect(await read(keys.free)).toEqual({ status: 429, limit: 2, used: 2, remaining: 0 })
    await expect.poll(() => gateway.metric('tollgate_banned_keys')).toBe(1)
    expect(await read(keys.free)).toMatchObject({ status: 429, limit: 2, remaining: 0 })
    expect(await read('nobody')).toEqual({ status: 401, limit: 60, used: 1, remaining: 59 })
    expect(await read()).toEqual({ status: 401, limit: 60, used: 2, remaining: 58 })
    expect(await read(undefined, '/elsewhere')).toMatchObject({ status: 404, remaining: 58 })
    const { responses } = await rawExchange(gateway.port, 'GET / HTTP/9.9\r\n\r\n')
    expect(responses.map(({ status }) => status)).toEqual([400])
    expect(responses[0]?.header('x-ratelimit-remaining')).toBe('58')
    expect(responses[0]?.header('ratelimit')).toBeUndefined()
  })

  it('left in, as by default, has it read NaN, which is why it can be left out', async () => {
    const { gateway } = await start('')
    const response = await gateway.fetch('/v1/pets', { key: keys.pro })
    await response.arrayBuffer()
    expect(response.headers.get('ratelimit')).toMatch(/^"minute";r=299;t=\d+, "day";r=9999;t=\d+$/)
    expect(parseRateLimit(response)?.remaining).toBeNaN()
  })
})
