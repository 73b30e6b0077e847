/** What a lessee keeps of its clients is let go with them: asked of the garbage collector, by the limits that came with each. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import type { Limits } from '../../src/config/config.ts'
import { createEmbeddedAuthority } from '../../src/state/memory/authority.ts'
import { Lessee } from '../../src/core/quota/lessee.ts'
import type { QuotaDecision } from '../../src/core/quota/decision.ts'
import type { NoticeListener, TakeReply } from '../../src/state/quota.ts'
import { createTimeline } from '../core/quota/lessee-harness.ts'

const MAX_CLIENTS = 200
const CLIENTS = 1500
const AT_ONCE = 50
const AWAY_FOR_MS = 41

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

it('keeps as many clients as it may, and none of those that were idle for an hour', async () => {
  const timeline = createTimeline()
  const authority = createEmbeddedAuthority({ clock: timeline.clock })
  const noticed: NoticeListener[] = []
  const returned: (() => void)[] = []
  let isAway = false
  let calls = 0
  const lessee = new Lessee({
    authority: {
      take: async (request): Promise<TakeReply> => {
        calls += 1
        await timeline.timers.after(1)
        if (isAway) throw new Error('away')
        return authority.take(request)
      },
      onNotice: (listener) => void noticed.push(listener),
      onReturn: (listener) => void returned.push(listener),
    },
    processId: 'p',
    clock: timeline.clock,
    timers: timeline.timers,
    outage: 'local',
    maxClients: MAX_CLIENTS,
  })
  const known: WeakRef<Limits>[] = []
  const alive = async (): Promise<number> => {
    // A WeakRef that was looked at keeps its target until the turn ends.
    await new Promise((resolve) => setImmediate(resolve))
    collectGarbage()
    return known.filter((limits) => limits.deref() !== undefined).length
  }
  /** Nothing of it stays on the stack of the test. */
  const meet = async (name: string, waitsMs: readonly number[]): Promise<void> => {
    const asks = Array.from({ length: AT_ONCE }, (_, at) => {
      const client = `${name}-${at}`
      const limits = { perMinute: 300, perDay: 3000 }
      known.push(new WeakRef(limits))
      const kept = (decision: QuotaDecision): void => {
        if (at % 7 === 0 && decision.kind === 'admitted') lessee.refund(client, decision)
      }
      return () => {
        const decision = lessee.take(client, limits)
        if (decision instanceof Promise) void decision.then(kept)
        else kept(decision)
      }
    })
    for (const waitMs of waitsMs) {
      isAway = waitMs === AWAY_FOR_MS
      for (const ask of asks) ask()
      await timeline.pass(waitMs)
    }
    isAway = false
  }

  for (let batch = 0; batch < CLIENTS / AT_ONCE; batch++) {
    // After a second tokens are granted ahead; at times the authority is away, and notices come.
    await meet(`batch-${batch}`, [1100, 40, 40, 40, batch % 5 === 3 ? AWAY_FOR_MS : 40, 40])
    for (let at = 0; at < AT_ONCE; at += 3)
      noticed.forEach((notice) =>
        notice(`batch-${batch}-${at}`, at % 2 === 0 ? 'unknown' : 'short'),
      )
    if (batch % 5 === 3) returned.forEach((listener) => listener())
    await timeline.pass(200)
  }
  expect(calls).toBeGreaterThan(2 * CLIENTS)
  expect(known).toHaveLength(CLIENTS)
  // Clients with tokens in hand, or of whom the authority has not heard all, stay until that is settled; then they make room.
  await timeline.pass(70_000)
  for (let batch = 0; batch < 10; batch++) {
    await meet(`late-${batch}`, [5])
  }
  await timeline.pass(70_000)
  expect(await alive()).toBeLessThanOrEqual(MAX_CLIENTS + AT_ONCE)
  await timeline.pass(3_700_000)
  expect(await alive()).toBe(0)
  await lessee.drain()
}, 120_000)
