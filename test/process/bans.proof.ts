/** By the clock on the wall and that of Redis: a client that asks two gateways, and waits for as long as it is told. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import {
  clientsBlock,
  configFile,
  decided,
  gatewayProcess,
  pick,
  startRawBackend,
  startRedisServer,
  storeOn,
} from './gateways.ts'

it('a client that waits for Retry-After is admitted then, and never gets a strike', async () => {
  const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
  const file = configFile(backend.url, {
    store: storeOn(redis),
    clients: clientsBlock([{ id: 'acme', keys: ['tg_acme'], perMinute: 3, perDay: 1000 }]),
    bans: 'bans: { strikes: 1, within: 10s, grace: 0s, duration: 60s }',
  })
  const gateways = await Promise.all([gatewayProcess(file), gatewayProcess(file)])
  let waits = 0
  for (let calls = 0; calls < 12; calls++) {
    const ask = () => decided(() => pick(gateways, calls).call('tg_acme'))
    const answer = await ask()
    if (answer.status === 200) continue
    expect(answer.code).toBe('rate_limit_exceeded')
    if (waits === 1) break
    waits++
    const seconds = Number(answer.headers.get('retry-after'))
    expect(seconds).toBeLessThanOrEqual(61)
    await sleep(seconds * 1_000)
    expect((await ask()).status).toBe(200)
  }
  expect(waits).toBe(1)
  for (const gateway of gateways)
    for (const name of ['strikes', 'bans'])
      expect(await gateway.metric(`tollgate_${name}_total`)).toBe(0)
})
