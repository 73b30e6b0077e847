/** Gateways as processes of their own that hold leases of one Redis, killed and stopped under load; chaos.proof.ts does it for longer. */
import { expect, it } from 'vitest'
import { compare, nameOf } from '../chaos/ledger.ts'
import { play } from '../chaos/play.ts'
import { describeDifferences } from '../chaos/report.ts'
import { oneRedis } from '../chaos/store.ts'
import { startWorld } from '../chaos/world.ts'
import { minuteWithAtLeast } from '../support/gateway.ts'

const plain = { obeys: false, isBystander: false, meetsNoKill: false }
const callers = [
  { ...plain, id: 'soon-used-up', perMinute: 90, perSecond: 60 },
  // Go on to the end, from one lease to the next.
  { ...plain, id: 'goes-on', perMinute: 60_000, perSecond: 40 },
  // Of these, which come to no gateway that is killed, nothing at all is left behind.
  { ...plain, id: 'careful', perMinute: 60_000, perSecond: 40, meetsNoKill: true },
  { ...plain, id: 'crowd', perMinute: 60, perSecond: 0 },
]
const place = { workers: 1, engine: 'direct' } as const
const places = [
  { ...place, isNeverKilled: false },
  { ...place, isNeverKilled: true },
]
const faults = ['gateway killed', 'gateway frozen', 'gateway killed'] as const

it('gateways on one Redis that are killed and stopped admit no more than each limit, and leave nothing behind but what killed ones held', async () => {
  const world = await startWorld(callers, places, { store: oneRedis })
  await minuteWithAtLeast(30_000)
  const { run, startMs } = await play(world, callers, {
    seed: 1,
    // A second after a client was met tokens are leased.
    calmMs: 1_500,
    forMs: 4_000,
    pauseMs: 300,
    lines: () => [faults.map((kind) => ({ kind, atMs: 0, forMs: 300, mustCome: true }))],
  })
  // All clients are in this one process: a machine that is busy may leave them too late.
  const differences = compare(run).filter(({ rule }) => rule !== 'unexplained')
  expect(describeDifferences(differences, run, { startMs, logLines: world.logLines() })).toBe('')
  expect(run.faults.map(({ kind }) => kind)).toEqual(faults)
  const outcomes = run.requests.map(({ client, outcomes: [first] }) => `${client} ${nameOf(first)}`)
  for (const one of ['soon-used-up 200', 'soon-used-up 429 rate_limit_exceeded', 'goes-on 200'])
    expect(outcomes).toContain(one)
})
