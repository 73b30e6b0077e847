/** A lessee with a clock, timers and an authority that the test moves by hand. */
import { expect } from 'vitest'
import type { OutageMode } from '../../../src/config/config.ts'
import { Lessee } from '../../../src/core/quota/lessee.ts'
import type { QuotaDecision } from '../../../src/core/quota/decision.ts'
import type { Authority, Beat, Beats, NoticeListener, Statement } from '../../../src/state/quota.ts'
import type { TakeReply, TakeRequest } from '../../../src/state/quota.ts'
import type { Timers } from '../../../src/state/timers.ts'
import { controlledMemoryAuthority, START_MS } from '../../support/controlled-authority.ts'

/** Time that passes when the test says so; the epoch and the monotonic clock run in step. */
export function createTimeline(startMs = START_MS) {
  const time = { ms: startMs }
  interface Due {
    atMs: number
    run(): void
    everyMs?: number
  }
  let due: Due[] = []
  const timers: Timers = {
    every: (everyMs, run) => {
      const entry = { atMs: time.ms + everyMs, run, everyMs }
      due.push(entry)
      return () => void (due = due.filter((other) => other !== entry))
    },
    after: (delayMs) =>
      new Promise((resolve) => due.push({ atMs: time.ms + delayMs, run: () => resolve() })),
  }
  return {
    time,
    timers,
    clock: { nowMs: () => time.ms - startMs + 12_345.25, epochMs: () => time.ms },
    /** Lets time pass, running what falls due on the way, and lets promises settle. */
    async pass(ms: number): Promise<void> {
      const endMs = time.ms + ms
      await settled()
      for (;;) {
        const next = due.toSorted((one, other) => one.atMs - other.atMs)[0]
        if (next === undefined || next.atMs > endMs) break
        time.ms = Math.max(time.ms, next.atMs)
        if (next.everyMs === undefined) due = due.filter((other) => other !== next)
        else next.atMs += next.everyMs
        next.run()
        await settled()
      }
      time.ms = endMs
      await settled()
    },
    /** At one leap, and timers fall due so much later: a day of them takes long. */
    leap(ms: number): void {
      time.ms += ms
      for (const timer of due) timer.atMs += ms
    },
  }
}

export type Timeline = ReturnType<typeof createTimeline>

/** Lets every promise that can settle do so: where time is virtual nothing waits for more than promises. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) await Promise.resolve()
}

/** Stands between a lessee and its authority like a network: counts, delays, fails. */
export function createNetwork(authority: Authority, timeline: Timeline) {
  const noticed: NoticeListener[] = []
  const network = {
    calls: [] as TakeRequest[],
    inFlight: 0,
    mostInFlight: 0,
    delayMs: 0,
    /** down: fails at once. away: throws without a call. */
    state: 'up' as 'up' | 'down' | 'away',
    take: (request: TakeRequest): Promise<TakeReply> => {
      if (network.state === 'away') throw new Error('away')
      network.calls.push(request)
      network.inFlight += 1
      network.mostInFlight = Math.max(network.mostInFlight, network.inFlight)
      const { state, delayMs } = network
      const travel = async (): Promise<TakeReply> => {
        if (delayMs > 0) await timeline.timers.after(delayMs / 2)
        if (state === 'down') throw new Error('down')
        const reply = await authority.take(request)
        const { notice } = reply
        if (notice !== undefined)
          for (const listener of noticed) listener(request.client, notice, request.process, reply)
        if (delayMs > 0) await timeline.timers.after(delayMs / 2)
        return reply
      }
      return travel().finally(() => {
        network.inFlight -= 1
      })
    },
    /** Arrives unless the network is down; its answer is as late as any. */
    beat: async (beat: Beat): Promise<Beats> => {
      if (network.state !== 'up') throw new Error('down')
      const beats = await authority.beat?.(beat)
      if (network.delayMs > 0) await timeline.timers.after(network.delayMs)
      if (beats === undefined) throw new Error('lost')
      return beats
    },
    onNotice: (listener: NoticeListener): void => void noticed.push(listener),
  }
  return network
}

/** An embedded authority behind a network, both with a time of their own. */
export function behindNetwork() {
  const timeline = createTimeline()
  const authority = controlledMemoryAuthority(timeline.time)
  return { timeline, authority, network: createNetwork(authority, timeline) }
}

export function createTestLessee(
  authority: Authority,
  timeline: Timeline,
  {
    outage = 'local',
    processId = 'p',
    ...more
  }: {
    outage?: OutageMode
    processId?: string
    maxClients?: number
    lease?: 'auto' | 'off'
    onClockBack?: (bySeconds: number) => void
    onTime?: (storeMs: number, tookMs: number) => void
  } = {},
): Lessee {
  return new Lessee({
    authority,
    processId,
    clock: timeline.clock,
    timers: timeline.timers,
    outage,
    ...more,
  })
}

const NOTHING: Statement = { index: -1, used: 0, held: 0 }

/** A call of a process that neither holds nor asks for anything, unless stated. */
export const callOf = (call: Partial<TakeRequest> & Pick<TakeRequest, 'limits'>): TakeRequest => ({
  client: 'acme',
  process: 'other',
  sequence: 1,
  minute: NOTHING,
  day: NOTHING,
  need: 0,
  want: call.need ?? 0,
  ...call,
})

/** The decision, which must be known without waiting. */
export function atOnce(decision: QuotaDecision | Promise<QuotaDecision>): QuotaDecision {
  expect(decision).not.toBeInstanceOf(Promise)
  return decision as QuotaDecision
}

export function admitted(decision: QuotaDecision): QuotaDecision & { kind: 'admitted' } {
  expect(decision.kind).toBe('admitted')
  return decision as QuotaDecision & { kind: 'admitted' }
}

export function refused(decision: QuotaDecision): QuotaDecision & { kind: 'refused' } {
  expect(decision.kind).toBe('refused')
  return decision as QuotaDecision & { kind: 'refused' }
}

/** All decisions, in order, whether they were known at once or not. */
export function all(
  decisions: readonly (QuotaDecision | Promise<QuotaDecision>)[],
): Promise<QuotaDecision[]> {
  return Promise.all(decisions.map(async (decision) => decision))
}
