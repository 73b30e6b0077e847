/** Finds clients whose use already reaches the limits of another configuration: taking it would refuse them at once. */
import { differing, isLowered } from '../../config/changes/blast-radius.ts'
import type { ChangedLimits, OverNow } from '../../config/changes/blast-radius.ts'
import type { Clients, Config } from '../../config/config.ts'
import { windows } from '../../config/time.ts'
import type { ClientCounters } from '../../state/counters.ts'
import type { Counters } from './counters.ts'

interface Asking {
  readonly current: Config
  readonly next: Config
  /** Clients whose limits are lowered. */
  readonly of: number
  readonly look: Counters['look']
  /** Whether another reload waits. */
  isAwaited(): boolean
  /** Default: enough for some ten thousand clients in Redis. */
  readonly withinMs?: number
}

/** Clients in one look-up. */
const AT_ONCE = 50
const WITHIN_MS = 3_000
const NAMED = 1_000

/** Charges nothing and changes nothing. Never rejects. */
export async function overNow(asking: Asking): Promise<OverNow> {
  const { current, next, of, look, isAwaited, withinMs = WITHIN_MS } = asking
  const clients: string[] = []
  let [count, lookedAt, cut] = [0, 0, '']
  const endMs = performance.now() + withinMs
  const missing: string[] = []
  try {
    for await (const page of loweredIn(current.clients, next.clients)) {
      cut = isAwaited() ? 'another reload waits' : performance.now() > endMs ? 'it takes long' : ''
      if (cut !== '') break
      const counters = await look(page.map(({ client: id, from: limits }) => ({ id, limits })))
      lookedAt += page.length
      const over = page.filter((change, at) => isUsedUp(change, counters[at]))
      count += over.length
      clients.push(...over.slice(0, NAMED - clients.length).map(({ client }) => client))
    }
  } catch {
    cut = 'the store is away'
  }
  if (lookedAt < of) missing.push(`${cut}: ${of - lookedAt} of ${of} clients were not looked at`)
  if (current.jwt !== undefined && isAnyPlanLowered(current, next))
    missing.push('clients that come with tokens are in no file: they were not looked at')
  const seen = { asOf: new Date().toISOString(), scope: 'store' as const }
  return { ...seen, ...(missing.length > 0 && { missing }), of, lookedAt, count, clients }
}

/** The clients of both that have lowered limits, in pages of AT_ONCE. */
async function* loweredIn(current: Clients, next: Clients) {
  let page: ChangedLimits[] = []
  for await (const { id: client, plan, limits: to } of differing(next, current)) {
    const from = current.get(client)?.limits
    if (from === undefined || !isLowered(from, to)) continue
    page.push({ client, plan, from, to })
    if (page.length < AT_ONCE) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}

const isUsedUp = ({ from, to }: ChangedLimits, counters: ClientCounters | undefined): boolean =>
  windows.some(
    ({ name, limit }) =>
      to[limit] < from[limit] && counters !== undefined && counters[name].used >= to[limit],
  )

const isAnyPlanLowered = (current: Config, next: Config): boolean =>
  [...current.plans.values()].some(({ name, limits }) => {
    const left = next.plans.get(name)?.limits
    return limits !== undefined && left !== undefined && isLowered(limits, left)
  })
