/** Plays a schedule and holds what processes say is left against what was truly admitted. */
import { Violation } from './ledger.ts'
import { playAndEnd, type Played } from './play.ts'
import type { Schedule } from './schedule.ts'
import type { Quota } from './shipped.ts'
import { createWorld, TIMEOUT_MS } from './world.ts'

/** How much of a limit what is said may be above the truth. */
const PART = 16
const windows = ['minute', 'day'] as const

export interface Said extends Played {
  /** The most notices that told of tokens of one client in one minute. */
  readonly notices: number
}

/** Holds each number against what was admitted before news of it may still be under way. Throws a Violation where it is too high. */
export async function playRemaining(quota: Quota, schedule: Schedule): Promise<Said> {
  const world = createWorld(quota, schedule, { isExact: true, missesNotices: true })
  const { ledger, time } = world
  // Who missed that a window was set back to 0 refuses still, and says of the other what was true before.
  const isSetBack = schedule.steps.some(({ event }) => event.kind === 'reset')
  // A notice takes its way, and a reply that is late is as old as that.
  const { latencyMs, delaysReply } = schedule.network
  const newsMs = delaysReply > 0 ? TIMEOUT_MS : 1.01 * latencyMs.max
  /** Admissions of which others may not know yet, in order. */
  const recent: { readonly atMs: number; readonly of: readonly string[] }[] = []
  const recentOf = new Map<string, number>()
  const count = (of: readonly string[], by: number): void =>
    of.forEach((own) => recentOf.set(own, (recentOf.get(own) ?? 0) + by))
  const noticed = new Map<string, number>()
  const { decided, carriedOut } = ledger

  ledger.carriedOut = (request, reply) => {
    carriedOut(request, reply)
    if (reply.notice !== 'free') return
    const own = `${request.client} ${reply.minute.index}`
    noticed.set(own, (noticed.get(own) ?? 0) + 1)
  }
  ledger.decided = (witness, asked, decision) => {
    decided(witness, asked, decision)
    const { client } = asked
    while (recent[0] !== undefined && recent[0].atMs < time.nowMs - newsMs)
      count(recent.shift()?.of ?? [], -1)
    if (decision.kind === 'admitted') {
      const of = windows.map((window) => `${client} ${window} ${decision.charged[window].index}`)
      recent.push({ atMs: time.nowMs, of })
      count(of, 1)
    }
    if (decision.kind === 'unavailable') return
    const { view } = decision
    if (view === undefined) return
    for (const window of windows) {
      if (isSetBack && decision.kind === 'refused') continue
      const { limit, remaining, resetAtSeconds } = view[window]
      const index = (resetAtSeconds * 1000) / (window === 'minute' ? 60_000 : 86_400_000) - 1
      const of = `${client} ${window} ${index}`
      const admitted = ledger.accounts.get(client)?.admitted[window].get(index) ?? 0
      const known = admitted - (recentOf.get(of) ?? 0)
      const over = remaining - Math.max(0, limit - Math.max(0, known))
      if (over > Math.floor(limit / PART))
        throw (ledger.violation ??= new Violation(
          'what is said to be left is above the truth by a sixteenth at most',
          `${remaining} of ${limit} in the ${window}, ${known} admitted (at ${time.nowMs} ms)`,
        ))
    }
  }
  const played = await playAndEnd(world, schedule)
  return { ...played, notices: Math.max(0, ...noticed.values()) }
}
