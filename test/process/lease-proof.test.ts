/** A few seconds of lease-proof.proof.ts: gateways that hold leases are killed and stopped under load, and nothing is admitted twice or lost. */
import { expect, it } from 'vitest'
import { atEnd } from '../support/ending.ts'
import { minuteWithAtLeast } from '../support/utc-windows.ts'
import { eventually, times } from './gateways.ts'
import {
  expectExact,
  expectNothingHeld,
  expectTrueCounters,
  fleet,
  playFaults,
  random,
  sampleCounters,
} from './lease-fleet.ts'
import { startCountingBackend } from './paced-callers.ts'

it('gateways on one Redis that are killed and stopped admit no more than each limit, and leave nothing behind but what killed ones held', async () => {
  const [size, forMs] = [2, 2_500]
  const clients = [
    { id: 'soon-used-up', perMinute: 90, perSecond: 60 },
    // Goes on to the end, from one lease to the next.
    { id: 'goes-on', perMinute: 60_000, perSecond: 40 },
  ]
  const backend = await startCountingBackend()
  atEnd(backend.close)
  const asked = { id: 'asked-once', perMinute: 60, perSecond: 0 }
  const all = await fleet(backend, { clients: [...clients, asked], size })
  await minuteWithAtLeast()
  const stopOffer = all.offer(clients, random)
  const untilMs = Date.now() + forMs
  const [faults, samples] = await Promise.all([
    playFaults(all, { stops: [untilMs - 1_000], untilMs, pauseMs: forMs / 2 }),
    sampleCounters(all, { untilMs, pauseMs: 300 }),
  ])
  const survivors = () => all.heard(faults.overMs)
  for (const { door } of all.up()) door.send(asked.id, `tg_${asked.id}`)
  await eventually('all gateways call Redis', () => survivors().size === size)
  await stopOffer()
  expect(await all.drain()).toEqual(times(size, () => 0))
  expect(faults.kills).toBeGreaterThan(0)
  expect(backend.strays).toEqual([])
  expectTrueCounters(samples)
  for (const client of clients) {
    const calls = backend.calls.filter((call) => call.client === client.id)
    expectExact(client, calls)
    const counters = await all.counters(client.id)
    expectNothingHeld(client, { counters, calls, survivors: survivors() })
  }
  const codes = new Set(backend.calls.map(({ client, status }) => `${client} ${status}`))
  for (const one of ['soon-used-up 200', 'soon-used-up 429', 'goes-on 200'])
    expect(codes).toContain(one)
})
