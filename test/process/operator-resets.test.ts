/** The use of a client that one gateway is told to set back, under load: on one Redis, and with the workers of one machine. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import type { ClientRow } from '../../src/api/usage.ts'
import { askAdmin } from '../support/admin-client.ts'
import type { RawBackend } from '../support/raw-backend.ts'
import { temporaryFolder } from '../support/processes.ts'
import {
  clientsBlock,
  configFile,
  decided,
  endAll,
  eventually,
  gatewayProcess,
  rawBackend,
  redisServer,
  type GatewayProcess,
} from './gateways.ts'

afterAll(endAll)

const [busy, other] = ['tg_busy_key', 'tg_other_key']
const LIMIT = 300
const clients = clientsBlock([
  { id: 'busy', keys: [busy], perMinute: LIMIT, perDay: LIMIT },
  { id: 'other', keys: [other], perMinute: 100, perDay: 1_000 },
])
const OTHER_USED = 7
/** Whoever goes on after a 429 is not banned while this runs. */
const bans = 'bans: { grace: 1m, strikes: 1000 }'

const reset = (gateway: GatewayProcess, window: string) =>
  askAdmin(gateway.adminOrigin, 'POST /api/clients/busy/reset', { window })
/** Where a busy machine held up the store it may have been done, or not; undefined: it was, and nobody has told of it. */
async function resetForSure(gateway: GatewayProcess, seen: () => number) {
  for (;;) {
    const before = seen()
    const done = await reset(gateway, 'both')
    if (done.status !== 503) return done.body
    await sleep(2_000)
    if (seen() !== before) return undefined
  }
}
const rowOf = async (gateway: GatewayProcess, id: string) =>
  (await askAdmin(gateway.adminOrigin, `GET /api/clients/${id}`)).body['client'] as ClientRow

/** Calls without a rest, several at once at each of them, until it is stopped. */
function load(gateways: readonly GatewayProcess[], atOnce: number): () => Promise<void> {
  const over = new AbortController()
  const callers = gateways.flatMap((gateway) =>
    Array.from({ length: atOnce }, async () => {
      while (!over.signal.aborted) {
        const { status } = await gateway.call(busy)
        if (status !== 200) await sleep(20)
      }
    }),
  )
  return async () => {
    over.abort()
    await Promise.all(callers)
  }
}

/** Resets under load, once all is used up and once amid it, and counts what the backend has seen. */
async function resetUnderLoad(
  gateways: readonly GatewayProcess[],
  backend: RawBackend,
  atOnce: number,
): Promise<void> {
  const [first, last = first] = [gateways[0], gateways.at(-1)]
  if (first === undefined || last === undefined) throw new Error('no gateway')
  const seen = (): number => backend.requests.length
  for (let n = 0; n < OTHER_USED; n++)
    expect((await decided(() => first.call(other))).status).toBe(200)
  const stop = load(gateways, atOnce)
  await eventually('all is used', () => seen() === OTHER_USED + LIMIT)
  await sleep(300)
  expect(seen()).toBe(OTHER_USED + LIMIT)

  const done = await resetForSure(last, seen)
  if (done !== undefined) expect(done).toMatchObject({ before: { day: LIMIT }, after: { day: 0 } })
  // All are let in again, and soon.
  const backMs = await eventually('all is used again', () => seen() === OTHER_USED + 2 * LIMIT)
  expect(backMs).toBeLessThan(5_000)
  await sleep(300)
  expect(seen()).toBe(OTHER_USED + 2 * LIMIT)

  await resetForSure(first, seen)
  await eventually('some is used', () => seen() > OTHER_USED + 2 * LIMIT + LIMIT / 10)
  const before = seen()
  await reset(last, 'day')
  const after = seen()
  await reset(last, 'minute')
  await eventually('it comes to rest', async () => {
    const count = seen()
    await sleep(700)
    return count === seen()
  })
  expect(seen()).toBeLessThanOrEqual(after + LIMIT)
  expect(seen()).toBeGreaterThanOrEqual(before)
  await stop()
  for (const gateway of [first, last])
    expect(await rowOf(gateway, 'other')).toMatchObject({ day: { used: OTHER_USED } })
}

describe.concurrent('a reset', () => {
  it('is obeyed by all of three gateways on one Redis: nothing beyond the limit, and the quota of others as it was', async () => {
    const [redis, backend] = await Promise.all([redisServer(), rawBackend()])
    const start = (server = ''): Promise<GatewayProcess> =>
      gatewayProcess(
        configFile(backend.url, {
          server: `server: { listen: "127.0.0.1:0"${server} }`,
          store: `store: { redis: "${redis.url}", timeout: 110ms, onOutage: closed }`,
          clients,
          bans,
        }),
      )
    const gateways = await Promise.all([start(), start(), start(', workers: 2')])
    await resetUnderLoad(gateways, backend, 6)
    await redis.kill()
    const [one] = gateways
    if (one === undefined) return
    await eventually('the store is away', async () => (await rowOf(one, 'busy')).day === null)
    expect((await reset(one, 'day')).coded).toEqual([503, 'store_unavailable'])
    await redis.restart()
  })

  it('is obeyed by all of four workers, and outlives a kill of all of them', async () => {
    const backend = await rawBackend()
    const file = join(temporaryFolder(), 'state.db')
    const config = configFile(backend.url, {
      server: 'server: { listen: "127.0.0.1:0", workers: 4 }',
      store: `store: { redis: "", file: "${file}" }`,
      clients,
      bans,
    })
    const gateway = await gatewayProcess(config)
    await resetUnderLoad([gateway], backend, 16)
    const used = (await reset(gateway, 'both')).body['after'] as { day: number }
    await sleep(1_200)
    gateway.signal('SIGKILL')
    await gateway.finished
    const next = await gatewayProcess(config)
    const { day } = await rowOf(next, 'busy')
    expect(day?.used).toBeLessThanOrEqual(used.day + LIMIT / 16)
    expect((await decided(() => next.call(busy))).status).toBe(200)
  })
})
