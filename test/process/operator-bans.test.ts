/** A ban that one gateway is told to impose or to lift, and all others: on one Redis, and the workers of one machine. */
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { askAdmin } from '../support/admin-client.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { ask } from '../workers/workers.ts'
import {
  clientsBlock,
  configFile,
  decided,
  endAll,
  eventually,
  gatewayProcess,
  quotaInRedis,
  rawBackend,
  redisServer,
  type GatewayProcess,
} from './gateways.ts'

afterAll(endAll)

const [banned, sister] = ['tg_banned_key', 'tg_sister_key']
const clients = clientsBlock([
  { id: 'acme', keys: [banned, sister], perMinute: 50_000, perDay: 100_000 },
])
const ban = (gateway: GatewayProcess, length = '1h') =>
  askAdmin(gateway.adminOrigin, 'PUT /api/bans/acme-1', { for: length, reason: 'a test' })
const lift = (gateway: GatewayProcess) => askAdmin(gateway.adminOrigin, 'DELETE /api/bans/acme-1')
const list = async (gateway: GatewayProcess) =>
  (await askAdmin(gateway.adminOrigin, 'GET /api/bans')).body

/** A second is promised; on a busy machine the calls that ask for it take their time too. */
async function obeyed(
  calls: readonly (() => Promise<{ code: string | undefined }>)[],
  code: string,
) {
  const fromMs = performance.now()
  let slowestMs = 0
  for (const call of calls)
    await eventually(`${code} everywhere`, async () => {
      const askedMs = performance.now()
      const answer = await call()
      slowestMs = Math.max(slowestMs, performance.now() - askedMs)
      return (answer.code ?? 'none') === code
    })
  expect(performance.now() - fromMs).toBeLessThan(1_000 + 5 * calls.length * slowestMs)
}

/** Loaded into a process: its Unix clock is CLOCK_AHEAD_MS ahead, or that of its workers alone, and two hours more from SIGWINCH on. */
const otherClock = temporaryFile(
  'other-clock.mjs',
  `const unixMs = Date.now
   let aheadMs = Number((process.send && process.env.WORKERS_AHEAD_MS) ?? process.env.CLOCK_AHEAD_MS ?? 0)
   process.on('SIGWINCH', () => void (aheadMs += 7_200_000))
   globalThis.Date = class extends Date {
     constructor(...given) {
       super(...(given.length === 0 ? [unixMs() + aheadMs] : given))
     }
     static now() {
       return unixMs() + aheadMs
     }
   }`,
)

describe.concurrent('hosts whose clocks differ', () => {
  it('mean the same by a ban: from their start on, when a clock is set, and while the store is away', async () => {
    const [redis, backend] = await Promise.all([redisServer(), rawBackend()])
    const start = (aheadMs: number, server = ''): Promise<GatewayProcess> => {
      const blocks = {
        server: `server: { listen: "127.0.0.1:0"${server} }`,
        store: `store: { redis: "${redis.url}" }`,
        clients,
      }
      const env = { NODE_OPTIONS: `--import=${otherClock}`, CLOCK_AHEAD_MS: String(aheadMs) }
      return gatewayProcess(configFile(backend.url, blocks), { env })
    }
    const [right, ahead, behind] = await Promise.all([
      start(0),
      start(3_600_000),
      start(-3_600_000, ', workers: 2'),
    ])
    const gateways = [right, ahead, behind]
    const calls = gateways.map((gateway) => () => gateway.call(banned))
    for (const imposing of gateways) {
      const madeMs = performance.now()
      const act = await ban(imposing, '3s')
      const { until } = act.body['after'] as { until: string }
      expect(Math.abs(Date.parse(until) - Date.now() - 3_000)).toBeLessThan(3_000)
      await obeyed(calls, 'api_key_banned')
      for (const gateway of gateways) {
        const answer = await gateway.call(banned)
        if (answer.code === undefined) expect(performance.now() - madeMs).toBeGreaterThan(2_900)
        else expect(Number(answer.headers.get('retry-after'))).toBeLessThanOrEqual(3)
      }
      for (const call of calls)
        await eventually('the end of the ban', async () => (await call()).code === undefined)
      expect(performance.now() - madeMs).toBeGreaterThan(2_900)
      expect(performance.now() - madeMs).toBeLessThan(30_000)
    }

    await ban(behind)
    await obeyed(calls, 'api_key_banned')
    for (const { child } of gateways) child.kill('SIGWINCH')
    const late = await start(7_200_000)
    for (const gateway of [...gateways, late]) {
      const answer = await gateway.call(banned)
      expect(answer.code).toBe('api_key_banned')
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(3_000)
    }
    await redis.kill()
    for (const { child } of gateways) child.kill('SIGWINCH')
    for (const gateway of [...gateways, late])
      expect((await gateway.call(banned)).code).toBe('api_key_banned')
  })
})

describe.concurrent('workers whose clocks are not that of their supervisor', () => {
  it.each([3_600_000, -3_600_000])('mean the same by a ban (%d ms off)', async (aheadMs) => {
    const backend = await rawBackend()
    const blocks = {
      server: 'server: { listen: "127.0.0.1:0", workers: 2 }',
      store: `store: { redis: "", file: "${join(temporaryFolder(), 'state.db')}" }`,
      clients,
    }
    const config = configFile(backend.url, blocks)
    const env = { NODE_OPTIONS: `--import=${otherClock}`, WORKERS_AHEAD_MS: String(aheadMs) }
    const gateway = await gatewayProcess(config, { env })
    const everyone = Array.from({ length: 10 }, () => () => ask(gateway.origin, { key: banned }))
    const madeMs = performance.now()
    await ban(gateway, '3s')
    await obeyed(everyone, 'api_key_banned')
    for (const call of everyone)
      await eventually('the end of the ban', async () => (await call()).code === undefined)
    expect(performance.now() - madeMs).toBeGreaterThan(2_900)
    expect(performance.now() - madeMs).toBeLessThan(30_000)
  })
})

describe.concurrent('what an operator says to one gateway', () => {
  it('is obeyed by all of three on one Redis, of workers or not, and costs no quota', async () => {
    const [redis, backend] = await Promise.all([redisServer(), rawBackend()])
    const store = `store: { redis: "${redis.url}", lease: off, onOutage: closed }`
    const start = (server = ''): Promise<GatewayProcess> =>
      gatewayProcess(
        configFile(backend.url, {
          server: `server: { listen: "127.0.0.1:0"${server} }`,
          store,
          clients,
        }),
      )
    const [one, two, three] = await Promise.all([start(), start(), start(', workers: 2')])
    const all = [one, two, three]
    const calls = all.map((gateway) => () => gateway.call(banned))
    for (const gateway of all) await decided(() => gateway.call(banned))
    const before = quotaInRedis(redis, 'acme').dayUsed
    for (const [imposing, lifting] of [
      [one, three],
      [three, two],
      [two, one],
    ] as const) {
      expect((await ban(imposing)).status).toBe(200)
      await obeyed(calls, 'api_key_banned')
      expect((await decided(() => two.call(sister))).status).toBe(200)
      for (const gateway of all)
        expect(await list(gateway)).toMatchObject({
          scope: 'store',
          bans: [{ key: 'acme-1', by: 'operator', reason: 'a test' }],
        })
      expect((await lift(lifting)).body['after']).toBe(null)
      await obeyed(calls, 'none')
      for (const gateway of all) expect((await list(gateway))['bans']).toEqual([])
    }
    expect(backend.requests).toHaveLength(quotaInRedis(redis, 'acme').dayUsed)
    expect(quotaInRedis(redis, 'acme').dayUsed).toBeGreaterThan(before)

    await ban(one)
    await obeyed(calls, 'api_key_banned')
    await redis.kill()
    for (const gateway of [one, three]) {
      await eventually('the store is known to be away', async () => {
        const { missing } = await list(gateway)
        return missing !== undefined
      })
      expect((await lift(gateway)).coded).toEqual([503, 'store_unavailable'])
      expect((await ban(gateway, '2h')).coded).toEqual([503, 'store_unavailable'])
    }
    for (const call of calls) expect((await call()).code).toBe('api_key_banned')
    await redis.restart()
    // As they knew it before: what was refused meanwhile has left nothing behind.
    await eventually('the ban in Redis', async () => {
      const { bans, missing } = await list(two)
      const [known] = bans as { since: string; until: string }[]
      const lastsMs = Date.parse(known?.until ?? '') - Date.parse(known?.since ?? '')
      return missing === undefined && Math.floor(lastsMs / 1_000) === 3_600
    })
    await eventually('the lift', async () => (await lift(one)).status === 200)
    for (const gateway of all) gateway.signal('SIGKILL')
    await Promise.all(all.map(({ finished }) => finished))
    const next = await start()
    expect((await decided(() => next.call(banned))).status).toBe(200)
  })

  it('is obeyed by all of four workers, and outlives a kill of all of them', async () => {
    const backend = await rawBackend()
    const file = join(temporaryFolder(), 'state.db')
    const config = configFile(backend.url, {
      server: 'server: { listen: "127.0.0.1:0", workers: 4 }',
      store: `store: { redis: "", file: "${file}" }`,
      clients,
    })
    let gateway = await gatewayProcess(config)
    // Each on a connection of its own, so that all workers are asked.
    const everyone = () =>
      Array.from({ length: 40 }, () => () => ask(gateway.origin, { key: banned }))
    const restart = async (): Promise<void> => {
      gateway.signal('SIGKILL')
      await gateway.finished
      gateway = await gatewayProcess(config)
    }
    const used = async (): Promise<string> => {
      const { headers } = await decided(() => ask(gateway.origin, { key: sister }))
      return String(headers['ratelimit'])
    }
    expect(await used()).toMatch(/"day";r=99999;/)
    await ban(gateway)
    await obeyed(everyone(), 'api_key_banned')
    expect(await used()).toMatch(/"day";r=99998;/)
    await restart()
    await obeyed(everyone(), 'api_key_banned')
    expect(await list(gateway)).toMatchObject({ bans: [{ key: 'acme-1', reason: 'a test' }] })
    await lift(gateway)
    await obeyed(everyone(), 'none')
    await restart()
    await obeyed(everyone(), 'none')
    expect((await list(gateway))['bans']).toEqual([])
  })
})
