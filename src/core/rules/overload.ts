/** Decides what is refused early while the event loop has more work than it can do: what is cheapest to refuse goes first. */
import { refuse } from './refusals.ts'

/** anonymous: requests without a valid credential are refused uncounted. everything: so are all new requests, if most of the load has valid credentials. */
export type Shed = 'nothing' | 'anonymous' | 'everything'

/** One measurement of the event loop, and the requests since the previous one. */
export interface Look {
  readonly lateMs: number
  /** Requests with a valid credential. */
  readonly keyed: number
  /** Other requests, and connections that have carried no valid credential. */
  readonly others: number
}

export interface Load {
  readonly shed: Shed
  /** Lateness that LATE_LOOKS of the last LOOKS looks have reached: one pause, however long, is no overload. */
  readonly lagMs: number
  /** Oldest first. */
  readonly latest: readonly Look[]
  /** Looks in a row that were calm enough to refuse less. */
  readonly calmLooks: number
}

export const LOOK_EVERY_MS = 50
const LOOKS = 10
/** One pause may make two looks late. */
const LATE_LOOKS = 3
/**
 * Requests with a valid credential are refused only if they are the load themselves: beside them come at most FEW_OTHERS others,
 * and one more for each KEYED_FOR_EACH_OTHER of them.
 */
const FEW_OTHERS = 8
const KEYED_FOR_EACH_OTHER = 8
/** This is half a second: refused requests must not come back all at once, again and again. */
const CALM_LOOKS = 10

const steps: readonly Shed[] = ['nothing', 'anonymous', 'everything']

export const NO_LOAD: Load = { shed: 'nothing', lagMs: 0, latest: [], calmLooks: 0 }

export const OVERLOADED = refuse('overloaded', {
  cause: 'the event loop is late',
  retryAfterSeconds: 1,
})

/**
 * More is refused once the lag exceeds limitMs (anonymous) or twice that (everything). One step less is refused after half
 * a second in which the loop was never later than half the limit of the present step.
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
