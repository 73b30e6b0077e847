/** A ban that one gateway is told to impose or to lift, and all others, whatever their clocks say: on one Redis, and the workers of one machine. */
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { askAdmin } from '../support/admin-client.ts'
import { ownMs } from '../support/own-time.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { ask } from '../server/workers/workers.ts'
import {
  clientsBlock,
  configFile,
  decided,
  eventually,
  gatewayHere,
  gatewayProcess,
  quotaInRedis,
  startRawBackend,
  startRedisServer,
  storeOn,
  times,
  type Gateway,
} from './gateways.ts'

const [banned, sister] = ['tg_banned_key', 'tg_sister_key']
const clients = clientsBlock([
  { id: 'acme', keys: [banned, sister], perMinute: 50_000, perDay: 100_000 },
])
const ban = (gateway: Gateway, length = '1h') =>
  askAdmin(gateway.adminOrigin, 'PUT /api/bans/acme-1', { for: length, reason: 'a test' })
const lift = (gateway: Gateway) => askAdmin(gateway.adminOrigin, 'DELETE /api/bans/acme-1')
const list = async (gateway: Gateway) => (await askAdmin(gateway.adminOrigin, 'GET /api/bans')).body

/** A store that is late on a busy machine says so, and is asked again. */
async function done(act: () => ReturnType<typeof ban>) {
  let answer = await act()
  while (answer.status === 503) answer = await act()
  return answer
}

type Ask = () => Promise<{ readonly code: string | undefined }>

/** A second is promised; on a busy machine the calls that ask for it take their time too. */
async function obeyed(calls: readonly Ask[], code: string) {
  const fromMs = ownMs()
  let slowestMs = 0
  for (const call of calls)
    await eventually(`${code} everywhere`, async () => {
      const askedMs = performance.now()
      const answer = await call()
      slowestMs = Math.max(slowestMs, performance.now() - askedMs)
      return (answer.code ?? 'none') === code
    })
  expect(ownMs() - fromMs).toBeLessThan(1_000 + 5 * calls.length * slowestMs)
}

/** A ban of three seconds is over everywhere when they are over, and not before. */
async function lastsThreeSeconds(imposing: Gateway, calls: readonly Ask[]): Promise<void> {
  let madeMs = 0
  const { body } = await done(() => {
    madeMs = performance.now()
    return ban(imposing, '3s')
  })
  const { until } = body['after'] as { until: string }
  expect(Math.abs(Date.parse(until) - Date.now() - 3_000)).toBeLessThan(3_000)
  const passedMs = () => performance.now() - madeMs
  // A busy machine may have asked for it when it is over.
  const isSeen = async (call: Ask) => (await call()).code === 'api_key_banned' || passedMs() > 3_000
  for (const call of calls) await eventually('the ban', () => isSeen(call))
  for (const call of calls)
    await eventually('the end of the ban', async () => (await call()).code === undefined)
  expect(passedMs()).toBeGreaterThan(2_900)
  expect(passedMs()).toBeLessThan(30_000)
}

/**
 * Loaded into a process: its Unix clock is CLOCK_AHEAD_MS ahead, or those of its workers are, every other one of them as
 * much behind, and two hours more from SIGWINCH on.
 */
const otherClock = temporaryFile(
  'other-clock.mjs',
  `import { mkdirSync } from 'node:fs'
   const unixMs = Date.now
   const { CLOCK_AHEAD_MS, TURN } = process.env
   let aheadMs = TURN !== undefined && process.send === undefined ? 0 : Number(CLOCK_AHEAD_MS)
   if (TURN !== undefined && process.send !== undefined)
     try {
       mkdirSync(TURN)
     } catch {
       aheadMs *= -1
     }
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
const HOUR_MS = 3_600_000
const clockOf = (aheadMs: number) => ({
  NODE_OPTIONS: `--import=${otherClock}`,
  CLOCK_AHEAD_MS: String(aheadMs),
})

it('is obeyed by all on one Redis, of workers or not, for as long as it lasts by the clock of the store, and costs no quota', async () => {
  const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
  const store = storeOn(redis, 'lease: off, onOutage: closed')
  const fileOf = (workers: number): string => {
    const server = `server: { listen: "127.0.0.1:0", workers: ${workers} }`
    return configFile(backend.url, { server, store, clients })
  }
  const [right, ahead, behind] = await Promise.all([
    gatewayHere(fileOf(1)),
    gatewayProcess(fileOf(1), { env: clockOf(HOUR_MS) }),
    gatewayProcess(fileOf(2), { env: clockOf(-HOUR_MS) }),
  ])
  const all = [right, ahead, behind]
  const calls = all.map((gateway) => () => gateway.call(banned))
  for (const call of calls) await decided(call)
  const before = quotaInRedis(redis, 'acme').dayUsed
  for (const [imposing, lifting] of [
    [right, behind],
    [behind, ahead],
    [ahead, right],
  ] as const) {
    expect((await done(() => ban(imposing))).status).toBe(200)
    await obeyed(calls, 'api_key_banned')
    expect((await decided(() => ahead.call(sister))).status).toBe(200)
    for (const gateway of all)
      expect(await list(gateway)).toMatchObject({
        scope: 'store',
        bans: [{ key: 'acme-1', by: 'operator', reason: 'a test' }],
      })
    expect((await done(() => lift(lifting))).body['after']).toBe(null)
    await obeyed(calls, 'none')
    for (const gateway of all) expect((await list(gateway))['bans']).toEqual([])
  }
  expect(backend.requests).toHaveLength(quotaInRedis(redis, 'acme').dayUsed)
  expect(quotaInRedis(redis, 'acme').dayUsed).toBeGreaterThan(before)

  for (const imposing of [ahead, behind]) await lastsThreeSeconds(imposing, calls)

  // Clocks that are set mean nothing to a ban, nor does the loss of the store.
  await done(() => ban(behind))
  await obeyed(calls, 'api_key_banned')
  for (const { child } of [ahead, behind]) child.kill('SIGWINCH')
  const late = await gatewayProcess(fileOf(1), { env: clockOf(2 * HOUR_MS) })
  // A start waits for no store that is late.
  await obeyed([() => late.call(banned)], 'api_key_banned')
  for (const gateway of [...all, late]) {
    const answer = await gateway.call(banned)
    expect(answer.code).toBe('api_key_banned')
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(3_000)
    expect(Number(answer.headers.get('retry-after'))).toBeLessThanOrEqual(3_600)
  }
  await redis.kill()
  for (const { child } of [ahead, behind]) child.kill('SIGWINCH')
  for (const gateway of [right, behind]) {
    await eventually('the store is known to be away', async () => {
      const { missing } = await list(gateway)
      return missing !== undefined
    })
    expect((await lift(gateway)).coded).toEqual([503, 'store_unavailable'])
    expect((await ban(gateway, '2h')).coded).toEqual([503, 'store_unavailable'])
  }
  for (const gateway of [...all, late])
    expect((await gateway.call(banned)).code).toBe('api_key_banned')
  await redis.restart()
  // As they knew it before: what was refused meanwhile has left nothing behind.
  await eventually('the ban in Redis', async () => {
    const { bans, missing } = await list(right)
    const [known] = bans as { since: string; until: string }[]
    const lastsMs = Date.parse(known?.until ?? '') - Date.parse(known?.since ?? '')
    return missing === undefined && Math.floor(lastsMs / 1_000) === 3_600
  })
  await eventually('the lift', async () => (await lift(right)).status === 200)
  for (const gateway of [ahead, behind, late]) gateway.signal('SIGKILL')
  await right.stop()
  const next = await gatewayHere(fileOf(1))
  expect((await decided(() => next.call(banned))).status).toBe(200)
})

it('is obeyed by all workers, whose clocks are not that of their supervisor, and outlives a kill of all of them', async () => {
  const backend = await startRawBackend()
  const folder = temporaryFolder()
  const config = configFile(backend.url, {
    server: 'server: { listen: "127.0.0.1:0", workers: 2 }',
    store: `store: { redis: "", file: "${join(folder, 'state.db')}" }`,
    clients,
  })
  const env = { ...clockOf(HOUR_MS), TURN: join(folder, 'turn') }
  let gateway = await gatewayProcess(config, { env })
  // Each on a connection of its own, so that all workers are asked.
  const everyone = times(16, () => () => ask(gateway.origin, { key: banned }))
  const restart = async (): Promise<void> => {
    gateway.signal('SIGKILL')
    await gateway.finished
    gateway = await gatewayProcess(config)
  }
  /** What was admitted before the ban was heard of was charged, and nothing else is. */
  const chargesAdmitted = async (): Promise<void> => {
    const { headers } = await decided(() => ask(gateway.origin, { key: sister }))
    expect(headers['ratelimit']).toContain(`"day";r=${100_000 - backend.requests.length};`)
  }
  await chargesAdmitted()
  await ban(gateway)
  await obeyed(everyone, 'api_key_banned')
  const atBackend = backend.requests.length
  for (const call of everyone) expect((await call()).code).toBe('api_key_banned')
  expect(backend.requests).toHaveLength(atBackend)
  await chargesAdmitted()
  await lift(gateway)
  await obeyed(everyone, 'none')
  await lastsThreeSeconds(gateway, everyone)
  await ban(gateway)
  await obeyed(everyone, 'api_key_banned')
  await restart()
  await obeyed(everyone, 'api_key_banned')
  expect(await list(gateway)).toMatchObject({ bans: [{ key: 'acme-1', reason: 'a test' }] })
  await lift(gateway)
  await obeyed(everyone, 'none')
  await restart()
  await obeyed(everyone, 'none')
  expect((await list(gateway))['bans']).toEqual([])
})
