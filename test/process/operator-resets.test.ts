/** The use of a client that one gateway is told to set back, under load, where others on its Redis hold some of it; workers-as-one.test.ts has that of workers. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { ClientRow } from '../../src/admin/clients/operations.ts'
import { askAdmin } from '../support/admin-client.ts'
import { again, clientsBlock, configFile, decided, eventually, gatewayHere } from './gateways.ts'
import { pick, startRawBackend, startRedisServer, storeOn, type Gateway } from './gateways.ts'

const [busy, other] = ['tg_busy_key', 'tg_other_key']
const LIMIT = 160
const OTHER_USED = 7

const reset = (gateway: Gateway, window: string) =>
  askAdmin(gateway.adminOrigin, 'POST /api/clients/busy/reset', { window })
const rowOf = async (gateway: Gateway, id: string) =>
  (await askAdmin(gateway.adminOrigin, `GET /api/clients/${id}`)).body['client'] as ClientRow

it('a reset is obeyed by all gateways on one Redis: nothing beyond the limit, and the quota of others as it was', async () => {
  const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
  const file = configFile(backend.url, {
    store: storeOn(redis, 'timeout: 110ms, onOutage: closed'),
    // Of the day too: who knows by heart that it is used up would not ask again before it ends.
    clients: clientsBlock([
      { id: 'busy', keys: [busy], perMinute: LIMIT, perDay: LIMIT },
      { id: 'other', keys: [other], perMinute: 100, perDay: 1_000 },
    ]),
    // Whoever goes on after a 429 is not banned while this runs.
    bans: 'bans: { grace: 1m, strikes: 100000 }',
  })
  const [first, last] = [await gatewayHere(file), await gatewayHere(file)]
  const gateways = [first, await gatewayHere(file), last]
  const seen = (): number => backend.requests.length
  /** How often a reset was asked for. */
  let resets = 0
  /** Where a busy machine held up the store it may have been done, or not; undefined: it was, and nobody has told of it. */
  const resetForSure = async (): Promise<Record<string, unknown> | undefined> => {
    const before = seen()
    resets++
    const { status, body } = await reset(last, 'both')
    if (status !== 503) return body
    let used: number | undefined
    // It is asked behind that.
    await eventually('an answer', async () => {
      used = (await rowOf(last, 'busy')).day?.used
      return used !== undefined
    })
    const isDone = seen() !== before || Number(used) < LIMIT
    return isDone ? undefined : resetForSure()
  }
  for (let n = 0; n < OTHER_USED; n++)
    expect((await decided(() => first.call(other))).status).toBe(200)
  let slowestMs = 0
  // Without a rest, several at once at each of them.
  const stop = again(
    18,
    async (at) => {
      const { status, tookMs } = await pick(gateways, at).call(busy)
      slowestMs = Math.max(slowestMs, tookMs)
      if (status !== 200) await sleep(40)
    },
    0,
  )
  await eventually('all is used', () => seen() === OTHER_USED + LIMIT)
  await sleep(300)
  expect(seen()).toBe(OTHER_USED + LIMIT)

  const done = await resetForSure()
  if (done !== undefined) {
    const { before, after } = done as Record<'before' | 'after', { day: number }>
    expect(before.day).toBe(LIMIT)
    // Those who ask without a rest may be let in before the answer is there.
    expect(after.day).toBeLessThan(LIMIT / 4)
  }
  const used = () => (seen() - OTHER_USED) / LIMIT
  const backMs = await eventually('all is used again', () => used() >= 2)
  // All are let in at once; on a busy machine their calls take their time too.
  expect(backMs).toBeLessThan(5_000 + 20 * slowestMs)
  await sleep(300)
  // One that failed may have been done, behind that.
  await eventually('the end of it', () => Number.isInteger(used()))
  expect(used()).toBeLessThanOrEqual(1 + resets)

  await stop()
  for (const gateway of [first, last])
    await eventually('the use of others', async () => {
      const { day } = await rowOf(gateway, 'other')
      // A store that is late says nothing.
      if (day !== null) expect(day.used).toBe(OTHER_USED)
      return day !== null
    })

  await redis.kill()
  await eventually('the store is away', async () => (await rowOf(first, 'busy')).day === null)
  expect((await reset(first, 'day')).coded).toEqual([503, 'store_unavailable'])
})
