/** What is counted, known and measured goes on under another configuration, by its settings. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { keys, minuteWithAtLeast, sha256 } from '../../support/gateway.ts'
import { answer, startRawBackend, until } from '../../support/raw-backend.ts'
import { openRawClient } from '../../support/raw-client.ts'
import { openServing, type Blocks } from '../../support/serving.ts'
import { believing, createSigner, serveKeys, sign } from '../../support/tokens.ts'

const held = Promise.withResolvers<void>()
const backend = await startRawBackend({
  respond: async ({ target }) => {
    if (target === '/v1/held') await held.promise
    return target === '/v1/live' ? undefined : answer(200, 'ok')
  },
})
const door = await openServing([backend.url])

const status = async (key?: string, path = '/v1/pets'): Promise<number> => {
  const response = await door.get(path, key)
  await response.arrayBuffer()
  return response.status
}
const statuses = async (count: number, key?: string): Promise<number[]> => {
  const all: number[] = []
  for (let at = 0; at < count; at++) all.push(await status(key))
  return all
}
const plans = (free: string): Blocks => ({
  plans: `plans: { free: { ${free} }, pro: { perMinute: 300, perDay: 10000 }, business: { perMinute: 1000, perDay: 100000 }, enterprise: { custom: true, concurrent: 10000 } }`,
})
const clients = (id: string): Blocks => ({
  clients: `clients: [{ id: ${id}, plan: free, keys: [{ id: free-1, sha256: ${sha256(keys.free)} }] }]`,
})
const bans = (text: string): Blocks => ({ bans: `bans: { grace: 0s, ${text} }` })
const server = (more: string): Blocks => ({
  server: `server: { listen: "127.0.0.1:0", timeouts: { drain: 1s }, ${more} }`,
})
const request = (path: string, more = '') =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${keys.enterprise}\r\n${more}\r\n`

describe('under another configuration', () => {
  it('running bans and strikes stay; the next ones follow its policy, and the log names its client', async () => {
    const few = plans('perMinute: 1, perDay: 1000')
    await minuteWithAtLeast()
    const lax = bans('strikes: 50, within: 1m, duration: 1h')
    await door.take({ ...few, ...clients('before'), ...lax })
    // One is admitted, one is warned: three strikes, as none comes in the millisecond of the warning.
    expect(await statuses(2, keys.free)).toEqual([200, 429])
    await sleep(2)
    expect(await statuses(3, keys.free)).toEqual([429, 429, 429])
    await expect.poll(() => door.metrics()).toContain('tollgate_strikes_total 3')
    const strict = bans('strikes: 2, within: 1m, duration: 3h')
    await door.take({ ...few, ...clients('after'), ...strict })
    // Quota is the client's, strikes are the key's.
    expect(await statuses(2, keys.free)).toEqual([200, 429])
    await expect.poll(() => door.metrics()).toContain('tollgate_banned_keys 1')
    expect(door.lines().filter(({ event }) => event === 'keyBanned')).toMatchObject([
      // As many as were counted, not the limit.
      { client: 'after', key: 'free-1', strikes: 4, forMs: 10_800_000 },
    ])
    await door.take({ ...clients('after') })
    const banned = await door.get('/v1/pets', keys.free)
    expect(await banned.json()).toMatchObject({ code: 'api_key_banned' })
  })

  it('anonymous requests are counted on, and a lower limit acts at once, as does a higher one', async () => {
    await minuteWithAtLeast()
    await door.take({ anonymous: 'anonymous: { perMinute: 100 }' })
    expect(await statuses(5)).toEqual([401, 401, 401, 401, 401])
    await door.take({ anonymous: 'anonymous: { perMinute: 3 }' })
    const refused = await door.get('/v1/pets')
    expect([refused.status, refused.headers.get('x-ratelimit-limit')]).toEqual([429, '3'])
    await door.take({ anonymous: 'anonymous: { perMinute: 20 }' })
    const left = await door.get('/v1/pets')
    expect([left.status, left.headers.get('x-ratelimit-remaining')]).toEqual([401, '13'])
  })

  it('what waits for its turn on a connection begins by the one in force then', async () => {
    await door.take({})
    const client = await openRawClient(door.port)
    const first = `POST /v1/held HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${keys.enterprise}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`
    client.send(first + request('/v1/pets'))
    await until(() => backend.requests.at(-1)?.target === '/v1/held', 'the backend')
    await door.take({
      routes: 'routes: [{ name: none, match: GET /nothing }]',
      unmatched: 'unmatched: reject',
    })
    held.resolve()
    const { responses } = await client.waitForResponses(2)
    expect(responses.map((response) => response.status)).toEqual([200, 404])
  })

  it('heads may be as long as it says on new connections, and time-outs are its own', async () => {
    await door.take(server('limits: { headerBytes: 4KiB, urlBytes: 1KiB }'))
    const long = request('/v1/pets', `X-Long: ${'x'.repeat(10_000)}\r\n`)
    const first = async () => {
      const client = await openRawClient(door.port)
      client.send(long)
      const { responses } = await client.waitForResponses(1)
      client.destroy()
      return responses[0]?.status
    }
    expect(await first()).toBe(431)
    await door.take(server('limits: { headerBytes: 32KiB }'))
    expect(await first()).toBe(200)
  })

  it('there are as many connections of an address as it says, and those that there are stay until a new one comes', async () => {
    const displaced = async (): Promise<number> => {
      const name = 'tollgate_connections_displaced_total{reason="address"} '
      const line = (await door.metrics()).find((one) => one.startsWith(name))
      return Number(line?.slice(name.length))
    }
    const early = await openRawClient(door.port)
    early.send(request('/v1/pets'))
    await early.waitForResponses(1)
    await door.take(server('limits: { connectionsPerAddress: 1 }'))
    early.send(request('/v1/pets'))
    expect((await early.waitForResponses(2)).closed).toBe(false)
    expect(await displaced()).toBe(0)
    const late = await openRawClient(door.port)
    late.send(request('/v1/pets'))
    expect((await late.waitForResponses(1)).responses[0]?.status).toBe(200)
    expect(await displaced()).toBe(1)
    await door.take({})
  })

  it('log lines are of its level and kind', async () => {
    const accessLines = () => door.raw().filter((line) => line.includes('"event":"access"')).length
    await door.take({ log: 'log: { access: false }' })
    const before = accessLines()
    await status(keys.pro)
    await door.take({ log: 'log: { access: true, level: error }' })
    await status(keys.pro)
    expect(accessLines()).toBe(before)
    await door.take({ log: 'log: { format: text }' })
    await status(keys.pro)
    await expect.poll(() => door.raw().at(-1)).toMatch(/^[^{].*GET \/v1\/pets 200/)
    await door.take({})
    await status(keys.pro)
    await expect.poll(accessLines).toBe(before + 1)
  })

  it('tokens seen before are believed without another look at the key set, by its plans; another issuer is asked first', async () => {
    const signer = await createSigner()
    const { uri, requests } = await serveKeys(signer.jwks)
    const jwt = (more = '') => ({ jwt: believing(`jwksUri: "${uri}"${more}`) })
    const token = await sign(signer, { plan: 'free', tier: 'pro' })
    const limit = async () => {
      const response = await door.get('/v1/pets', token)
      return response.headers.get('x-ratelimit-limit')
    }
    await door.take(jwt())
    expect([await limit(), requests()]).toEqual(['60', 1])
    await door.take({ ...jwt(), ...plans('perMinute: 61, perDay: 1000') })
    expect([await limit(), requests()]).toEqual(['61', 1])
    await door.take(jwt(', planClaim: tier'))
    expect([await limit(), requests()]).toEqual(['300', 2])
    await door.take({})
    expect(await status(token)).toBe(401)
  })

  it('the last one decides how long a drain may last', async () => {
    const held = openRawClient(door.port)
    ;(await held).send(request('/v1/live'))
    await until(() => backend.requests.some(({ target }) => target === '/v1/live'), 'the request')
    await door.take({ server: 'server: { listen: "127.0.0.1:0", timeouts: { drain: 50ms } }' })
    await door.serving.drain({ idleMs: 0 })
    expect(door.lines().filter(({ event }) => String(event).startsWith('drain'))).toMatchObject([
      { event: 'draining', inFlight: 1, timeoutMs: 50 },
      { event: 'drained', cutOff: 1 },
    ])
  })
})
