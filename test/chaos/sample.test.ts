/** A few seconds of what `npm run proof` and `npm run chaos` do for longer, with more processes and all faults. */
import { expect, it } from 'vitest'
import { gatewayHere } from '../process/gateways.ts'
import { configText } from '../support/gateway.ts'
import { temporaryFile, type Finished } from '../support/processes.ts'
import type { FaultKind } from './events.ts'
import { compare, nameOf } from './ledger.ts'
import { play } from './play.ts'
import { describeDifferences } from './report.ts'
import { oneRedis } from './store.ts'
import { startWorld, type Parts } from './world.ts'

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
/** In this process they start sooner, and can be stopped but not killed. */
const startGateway: Parts['gateway'] = async (options) => {
  const gateway = await gatewayHere(temporaryFile('gateway.yaml', configText(options)))
  const ended = Promise.withResolvers<Finished>()
  const end = (code: number, stderr = ''): void => ended.resolve({ code, stdout: '', stderr })
  const signal = (): undefined =>
    void gateway.stop().then(
      () => end(0),
      (error: unknown) => end(1, String(error)),
    )
  return { ...gateway, finished: ended.promise, signal }
}
/** What clients and gateways in one process may be too late for, where it has no processor. */
const ofBusyMachine = /^(?:503|504|cut before|tunnel cut)|: 503|no X-RateLimit-/

it('whatever fails for a moment, nothing is charged twice, lost, over a limit or answered wrongly', async () => {
  const gateways = [
    { ...place, engine: 'direct' },
    { ...place, engine: 'http-proxy-3' },
  ] as const
  const world = await startWorld(callers, gateways, {
    store: oneRedis,
    gateway: startGateway,
  })
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
