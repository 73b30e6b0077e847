/** Operations that are to go: announced, switched off now and then for some, gone in the end, and who calls them still. */
import { describe, expect, it } from 'vitest'
import { isChosen } from '../../../src/core/rules/deprecation.ts'
import { askAdmin } from '../../support/admin-client.ts'
import { startBacked } from '../../support/backed.ts'
import { keys } from '../../support/gateway.ts'
import { rawExchange } from '../../support/raw-client.ts'
import { minuteWithAtLeast } from '../../support/utc-windows.ts'

const hour = 3_600_000
const hoursFromNow = (hours: number): string => new Date(Date.now() + hours * hour).toISOString()
const since = 'since: 2020-01-01'
const brownout = (share: string, from = hoursFromNow(-1), to = hoursFromNow(1)): string =>
  `brownouts: [{ from: ${from}, to: ${to}, share: ${share} }]`
const deprecated = {
  gone: `${since}, sunset: 2025-01-01, afterSunset: gone, successor: /new`,
  announced: `${since}, sunset: 2025-01-01`,
  off: `${since}, sunset: ${hoursFromNow(2)}, afterSunset: gone, ${brownout('100%')}`,
  half: `${since}, ${brownout('50%')}`,
  soon: `${since}, ${brownout('100%', hoursFromNow(1), hoursFromNow(2))}`,
}
const blocks = {
  server: 'server: { listen: "127.0.0.1:0", trustedProxies: [127.0.0.1] }',
  routes: `routes: [${Object.entries(deprecated)
    .map(([name, text]) => {
      const socket = name === 'gone' ? 'websocket: true, ' : ''
      return `{ name: ${name}, match: GET /${name}, ${socket}deprecated: { ${text} } }`
    })
    .join(', ')}]`,
}

const { backend, gateway } = await startBacked({ blocks })

const get = (path: string, key: string = keys.pro, agent = 'sdk/1') =>
  gateway.ask(`/v1/${path}`, { key, headers: { 'User-Agent': agent } })
const codeOf = async (path: string, key?: string) => (await get(path, key)).code

describe('an operation past its sunset', () => {
  it('is gone by each way that leads there, with its lifecycle headers, free, and unseen by the backend', async () => {
    const before = backend.requests.length
    const told = await get('gone')
    expect(told).toMatchObject({ status: 410, code: 'operation_removed', left: 300 })
    for (const [name, value] of [
      ['retry-after', null],
      ['deprecation', '@1577836800'],
      ['sunset', 'Wed, 01 Jan 2025 00:00:00 GMT'],
      ['link', '</v1/new>; rel="successor-version"'],
    ] as const)
      expect(told.header(name)).toBe(value)
    expect(told.dayLeft).toBe(10_000)
    const head = await gateway.ask('/v1/gone', { method: 'HEAD', key: keys.pro })
    expect([head.status, head.body]).toEqual([410, ''])
    const upgrade = [
      'GET /v1/gone HTTP/1.1',
      'Host: a',
      `Authorization: Bearer ${keys.pro}`,
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    ]
    const { responses } = await rawExchange(gateway.port, `${upgrade.join('\r\n')}\r\n\r\n`, {
      responses: 1,
    })
    expect(responses[0]?.status).toBe(410)
    expect(backend.requests).toHaveLength(before)
  })

  it('answers 401 to who may not know, and stays where it is only announced', async () => {
    expect(await codeOf('gone', 'tg_wrong')).toBe('invalid_api_key')
    expect((await get('announced')).status).toBe(200)
  })
})

describe('an operation in a brownout', () => {
  it('is switched off for as long as it says, to all where the share is all', async () => {
    const before = backend.requests.length
    const told = await get('off')
    expect(told).toMatchObject({ status: 410, code: 'operation_in_brownout' })
    const seconds = Number(told.header('retry-after'))
    expect(seconds).toBeGreaterThan(3_000)
    expect(seconds).toBeLessThanOrEqual(3_600)
    expect(told.header('sunset')).not.toBe(null)
    expect(backend.requests).toHaveLength(before)
    expect((await get('soon')).status).toBe(200)
  })

  it('is so for its share of the clients, until the minute that Retry-After names', async () => {
    await minuteWithAtLeast()
    const nowMs = Date.now()
    for (const [client, key] of [
      ['free-client', keys.free],
      ['pro-client', keys.pro],
      ['business-client', keys.business],
      ['enterprise-client', keys.enterprise],
    ] as const) {
      const response = await get('half', key)
      expect(response.status, client).toBe(isChosen(client, nowMs, 0.5) ? 410 : 200)
      if (response.status === 200) continue
      const passesMs = Date.now() + Number(response.header('retry-after')) * 1000
      expect(isChosen(client, passesMs, 0.5)).toBe(false)
    }
  })
})

describe('callers of what is deprecated', () => {
  it('are told by route, client and user agent, refused or not; of ever new user agents only how many calls', async () => {
    for (let at = 0; at < 2; at++) await get('announced', keys.business, 'python-requests/2.32')
    await get('gone', keys.business, 'a'.repeat(300))
    for (let at = 0; at < 12; at++) await get('announced', keys.enterprise, `random/${at}`)
    const seen = async () => {
      const { body } = await askAdmin(
        `http://127.0.0.1:${gateway.adminPort}`,
        'GET /api/deprecations',
      )
      const { callers } = body as {
        callers: { route: string; client: string; userAgent: string; count: number }[]
      }
      return callers
        .filter(({ client, route }) => /business|enterprise/.test(client) && route !== 'half')
        .map(({ route, userAgent, count }) => `${route} ${userAgent} ${count}`)
        .toSorted()
    }
    await expect
      .poll(seen, { timeout: 10_000 })
      .toEqual([
        'announced (others) 4',
        'announced python-requests/2.32 2',
        ...Array.from({ length: 8 }, (_, index) => `announced random/${index} 1`),
        `gone ${'a'.repeat(100)} 1`,
      ])
    // pro-client and both of these.
    expect(await gateway.metric('tollgate_deprecated_callers{route="announced"}')).toBe(3)
  })
})
