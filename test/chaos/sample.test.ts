/** A few seconds of what `npm run proof` and `npm run chaos` do for longer, with more processes and all faults. */
import { expect, it } from 'vitest'
import { minuteWithAtLeast } from '../support/gateway.ts'
import type { FaultKind } from './events.ts'
import { compare, nameOf } from './ledger.ts'
import { play } from './play.ts'
import { describeDifferences } from './report.ts'
import { oneRedis } from './store.ts'
import { startWorld } from './world.ts'

const plain = { obeys: true, isBystander: false, meetsNoKill: true }
const greedy = { ...plain, obeys: false }
const callers = [
  { ...plain, id: 'bystander', perMinute: 6_000, perSecond: 10, isBystander: true },
  { ...plain, id: 'small', perMinute: 10, perSecond: 4 },
  { ...plain, id: 'talker', perMinute: 300, perSecond: 3, talks: true },
  { ...greedy, id: 'soon-used-up', perMinute: 60, perSecond: 30, meetsNoKill: false },
  // Go on to the end, from one lease to the next.
  { ...greedy, id: 'goes-on', perMinute: 60_000, perSecond: 20, meetsNoKill: false },
  // Of these, which come to no gateway that is killed, nothing at all is left behind.
  { ...greedy, id: 'careful', perMinute: 60_000, perSecond: 20 },
]
const places = [
  { workers: 1, engine: 'direct', isNeverKilled: false },
  { workers: 1, engine: 'http-proxy-3', isNeverKilled: true },
] as const
const lines: readonly (readonly FaultKind[])[] = [
  ['gateway killed', 'gateway frozen', 'gateway killed', 'store restarted', 'gateway restarted'],
  ['backend breaks', 'backend busy', 'backend dies'],
]
/** What clients in one process, and gateways, may be too late for on a machine that has no processor for them. */
const ofBusyMachine = /^(?:503|504|cut before|tunnel cut)|: 503|no X-RateLimit-/

it('whatever fails for a moment, and whoever is killed, nothing is charged twice, lost, over a limit or answered wrongly', async () => {
  const world = await startWorld(callers, places, oneRedis)
  await minuteWithAtLeast(30_000)
  const { run, startMs } = await play(world, callers, {
    seed: 1,
    // A second after a client was met tokens are leased.
    calmMs: 1_500,
    forMs: 5_000,
    pauseMs: 300,
    lines: () =>
      lines.map((kinds) => kinds.map((kind) => ({ kind, atMs: 0, forMs: 300, mustCome: true }))),
  })
  const differences = compare(run).filter(({ detail }) => !ofBusyMachine.test(detail))
  expect(describeDifferences(differences, run, { startMs, logLines: world.logLines() })).toBe('')
  expect(run.faults.map(({ kind }) => kind).toSorted()).toEqual(lines.flat().toSorted())
  const outcomes = run.requests.map(({ client, outcomes: [first] }) => `${client} ${nameOf(first)}`)
  for (const each of [
    'bystander 200',
    'talker 101',
    'soon-used-up 429 rate_limit_exceeded',
    'goes-on 200',
    'careful 200',
  ])
    expect(outcomes).toContain(each)
})
