/** What is refused early while there is more work than the event loop can do, the cheapest first. */
import { refuse } from './refusals.ts'

/** anonymous: requests without a valid credential, instead of counting them. everything: all new requests, where the load is theirs. */
export type Shed = 'nothing' | 'anonymous' | 'everything'

/** One look at the event loop, and what has come since the one before. */
export interface Look {
  readonly lateMs: number
  /** Requests with a valid credential. */
  readonly keyed: number
  /** Other requests, and connections that have carried no valid credential. */
  readonly others: number
}

export interface Load {
  readonly shed: Shed
  /** What LATE_LOOKS of the last LOOKS looks have reached: one pause, however long, is no overload. */
  readonly lagMs: number
  /** Oldest first. */
  readonly latest: readonly Look[]
  /** Looks in a row that were calm enough for less to be refused. */
  readonly calmLooks: number
}

export const LOOK_EVERY_MS = 50
const LOOKS = 10
/** Two looks may fall into the two halves of one pause. */
const LATE_LOOKS = 3
/** Who has a valid credential is refused for the load of such alone: of others few come, beyond which for each of them so many. */
const FEW_OTHERS = 8
const KEYED_FOR_EACH_OTHER = 8
/** Half a second: what was refused must not come back all at once, again and again. */
const CALM_LOOKS = 10

const steps: readonly Shed[] = ['nothing', 'anonymous', 'everything']

export const NO_LOAD: Load = { shed: 'nothing', lagMs: 0, latest: [], calmLooks: 0 }

export const OVERLOADED = refuse('overloaded', {
  cause: 'the event loop is late',
  retryAfterSeconds: 1,
})

/**
 * More is refused once the lag exceeds limitMs (anonymous) or twice that (everything); one step less after half a second in
 * which the loop was never later than half of what the present step asks for.
 */
export function afterLook({ shed, latest, calmLooks }: Load, look: Look, limitMs: number): Load {
  const looks = [...latest.slice(1 - LOOKS), look]
  const lagMs = looks.map(({ lateMs }) => lateMs).sort((a, b) => b - a)[LATE_LOOKS - 1] ?? 0
  const step = steps.indexOf(shed)
  const most = isKeyed(looks) ? 2 : 1
  const asked = Math.min(most, lagMs > 2 * limitMs ? 2 : lagMs > limitMs ? 1 : 0)
  const calm = look.lateMs <= (step * limitMs) / 2 ? calmLooks + 1 : 0
  const isOver = calm >= CALM_LOOKS
  const next = Math.max(asked, isOver ? step - 1 : Math.min(step, most), 0)
  return {
    shed: steps[next] ?? shed,
    lagMs,
    latest: looks,
    calmLooks: next === step && !isOver ? calm : 0,
  }
}

function isKeyed(looks: readonly Look[]): boolean {
  const sum = (of: 'keyed' | 'others') => looks.reduce((total, look) => total + look[of], 0)
  return sum('keyed') >= KEYED_FOR_EACH_OTHER * (sum('others') - FEW_OTHERS)
}
