import { expect, it } from 'vitest'
import { minuteWithAtLeast } from '../support/gateway.ts'
import {
  acquainted,
  clientsBlock,
  configFile,
  gatewayHere,
  pick,
  startRawBackend,
  startRedisServer,
  storeLost,
  storeOn,
  tally,
  times,
} from './gateways.ts'

it('local: six gateways admit exactly each limit of clients that none of them has met', async () => {
  const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
  const limits = [1, 2, 5, 6, 7, 20]
  const clients = limits.map((perMinute) => ({
    id: `client-${perMinute}`,
    keys: [`tg_unmet_${perMinute}_key`],
    perMinute,
  }))
  const file = configFile(backend.url, {
    store: storeOn(redis, 'onOutage: local'),
    clients: clientsBlock(clients),
  })
  const gateways = await Promise.all(times(6, () => gatewayHere(file)))
  await acquainted(redis, 6)
  await minuteWithAtLeast()
  redis.freeze()
  await storeLost(gateways)
  for (const { perMinute, keys } of clients) {
    const answers = await Promise.all(
      times(6 * perMinute, (at) => pick(gateways, at).call(keys[0])),
    )
    const { '200': admitted = 0, ...others } = tally(answers)
    expect(admitted).toBe(perMinute)
    // Never a 429, as the client may have quota elsewhere; of a whole limit used up at one of them it is true.
    if (perMinute > 1) expect(others).toEqual({ '503 service_unavailable': 5 * perMinute })
    for (const { status, headers } of answers)
      if (status === 503) expect(headers.get('retry-after')).toBe('1')
  }
  redis.thaw()
})
