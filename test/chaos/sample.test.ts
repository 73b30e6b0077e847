/** A few seconds of what `npm run proof` and `npm run chaos` do for longer, with real processes and all faults. */
import { expect, it } from 'vitest'
import type { FaultKind } from './events.ts'
import { inProcess } from './in-process.ts'
import { compare, nameOf } from './ledger.ts'
import { play } from './play.ts'
import { describeDifferences } from './report.ts'
import { startWorld } from './world.ts'

const plain = { obeys: true, isBystander: false, meetsNoKill: true }
const callers = [
  { ...plain, id: 'bystander', perMinute: 6_000, perSecond: 20, isBystander: true },
  { ...plain, id: 'small', perMinute: 10, perSecond: 8 },
  { ...plain, id: 'greedy', perMinute: 16, perSecond: 16, obeys: false },
  { ...plain, id: 'talker', perMinute: 300, perSecond: 3, talks: true },
]
const place = { workers: 1, isNeverKilled: true } as const
const lines: readonly (readonly FaultKind[])[] = [
  ['store restarted', 'gateway restarted'],
  ['backend breaks', 'backend busy', 'backend dies'],
]
/** What clients and backends in one process may be too late for, where it has no processor. */
const ofBusyMachine = /^(?:503|504|cut before|tunnel cut)|: 503|no X-RateLimit-/

it('whatever fails for a moment, nothing is charged twice, lost, over a limit or answered wrongly', async () => {
  const gateways = [
    { ...place, engine: 'direct' },
    { ...place, engine: 'http-proxy-3' },
  ] as const
  const world = await startWorld(callers, gateways, inProcess)
  const { run, startMs } = await play(world, callers, {
    seed: 1,
    calmMs: 300,
    forMs: 2_500,
    pauseMs: 200,
    lines: () =>
      lines.map((kinds) => kinds.map((kind) => ({ kind, atMs: 0, forMs: 250, mustCome: true }))),
  })
  const differences = compare(run).filter(({ detail }) => !ofBusyMachine.test(detail))
  expect(describeDifferences(differences, run, { startMs, logLines: world.logLines() })).toBe('')
  expect(run.faults.map(({ kind }) => kind).toSorted()).toEqual(lines.flat().toSorted())
  const outcomes = new Set(
    run.requests.map(({ client, outcomes: [outcome] }) => `${client} ${nameOf(outcome)}`),
  )
  expect(outcomes).toContain('bystander 200')
  expect(outcomes).toContain('talker 101')
  expect(outcomes).toContain('greedy 429 rate_limit_exceeded')
})
