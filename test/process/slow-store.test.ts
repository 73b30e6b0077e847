import { afterAll, describe, expect, it } from 'vitest'
import { startSlowLink, type SlowLink } from '../support/slow-link.ts'
import {
  acquainted,
  clientsBlock,
  configFile,
  decided,
  endAll,
  eventually,
  gatewayProcess,
  pick,
  rawBackend,
  redisServer,
  tally,
  times,
  type Answer,
} from './gateways.ts'
import {
  expectDecidedInTime,
  expectRecovery,
  startLoad,
  tellsNothing,
  tellsQuota,
} from './store-load.ts'

const links: SlowLink[] = []
afterAll(async () => {
  await endAll()
  await Promise.all(links.map((link) => link.close()))
})

const key = 'tg_slow_store'

/** Two gateways whose calls to Redis take as long as the link says. */
async function scene(limit: number) {
  const [redis, backend] = await Promise.all([redisServer(), rawBackend()])
  const link = await startSlowLink(redis.port)
  links.push(link)
  const file = configFile(backend.url, {
    store: `store: { redis: "redis://127.0.0.1:${link.port}", timeout: 110ms }`,
    // Of the day, so that no minute ends meanwhile.
    clients: clientsBlock([{ id: 'acme', keys: [key], perMinute: limit, perDay: limit }]),
    bans: 'bans: { grace: 1m }',
  })
  const gateways = await Promise.all(times(2, () => gatewayProcess(file)))
  await acquainted(redis, 2)
  return { link, backend, gateways }
}

describe('a Redis that is slow', () => {
  it('within store.timeout: keeps the limit exactly, with true headers', async () => {
    const { link, backend, gateways } = await scene(100)
    // The first ones while it is quick, so that each process has heard of the other.
    for (let at = 0; at < 4; at++) await decided(() => pick(gateways, at).call(key))
    link.delayMs = 40
    const answers: Answer[] = []
    // A few at a time: a machine that is busy with hundreds would make the calls slower still.
    for (let round = 0; round < 37; round++)
      answers.push(...(await Promise.all(times(8, (at) => pick(gateways, at).call(key)))))
    const counts = tally(answers)
    expect(4 + (counts['200'] ?? 0)).toBeLessThanOrEqual(100)
    expect(backend.requests).toHaveLength(4 + (counts['200'] ?? 0))
    // A refusal that others could undo by giving tokens back is asked again a little later.
    await eventually('the whole limit', async () => {
      await Promise.all(gateways.map((gateway) => gateway.call(key)))
      return backend.requests.length === 100
    })
    expect(answers.filter(tellsQuota).length).toBeGreaterThan(answers.length / 4)
  })

  it('beyond it: decides in time without it, and goes back to it as soon as it is quick', async () => {
    const { link, gateways } = await scene(1_000_000)
    const load = startLoad(gateways, { key })
    try {
      await eventually('answers with the store', () => load.answers.filter(tellsQuota).length > 40)
      const whole = load.since()
      link.delayMs = 400
      await eventually('an answer without the store', () => whole().some(tellsNothing))
      link.delayMs = 0
      await expectRecovery(load)
      expectDecidedInTime(whole(), load.undecidedMs)
      const { length } = whole()
      expect(tally(whole())).toEqual({ '200': length })
    } finally {
      await load.stop()
    }
  })
})
