/** What an operator sees first: what needs attention, the latest 15 minutes, the plans. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Attention, Ban, Seen } from '../api/live.ts'
import type { CurrentState } from './changes.ts'
import type { Live } from './live.ts'
import { planInForce } from './seen-clients.ts'
import { refusedOf } from './shadow-counts.ts'
import { describeEnd } from '../../config/certificates.ts'
import { EXPIRING_MS, likelyMistakes } from '../../config/clients/warnings.ts'
import { formatPath } from '../../config/problems.ts'
import { DAY_MS, windowNames } from '../../config/time.ts'
import type { DayRow } from '../../state/usage.ts'
import { clock as clockOf, relative } from '../format.js'

const SHOWN = 5
const SHOWN_BACKENDS = 2
const STALE_MS = 4_000
const UNSAVED_SECONDS = 5
const NEAR = 0.8

export interface OverviewParts extends CurrentState {
  readonly gateway: string
  readonly version: string
  readonly live: Live
  workers(): { readonly listening: number; readonly wanted: number }
  readonly admittedToday: ReturnType<typeof createAdmittedToday>
  /** Seconds for which counters or history could not be saved. */
  unsavedSeconds(): number
  /** Why no line of the log can be written; undefined while they are. */
  logFault(): string | undefined
  /** Rejects while the store is away. */
  listBans(): Promise<readonly Ban[]>
}

/** GET /api/overview */
export type Overview = Seen & Awaited<ReturnType<typeof overview>>

export async function overview(parts: OverviewParts) {
  const { gateway, version, live } = parts
  const { clients, plans, revision } = parts.reloads.config
  const nowMs = Date.now()
  const now = Math.floor(nowMs / 1000)
  const [bans, admitted] = await Promise.all([
    parts.listBans().catch(() => null),
    parts.admittedToday(nowMs),
  ])
  const planOf = planInForce(parts.reloads.config)
  const [of, near] = [clients.countByPlan(), live.clients.countAbove(NEAR, now, planOf)]
  return {
    gateway,
    version,
    revision,
    startedAt: new Date(live.startedAtMs).toISOString(),
    workers: parts.workers(),
    attention: attention(parts, nowMs),
    /** The latest 900 seconds or fewer. */
    seconds: live.seconds.columns(now),
    latest: live.latest,
    reloads: live.changes.reloads,
    plans: Array.from(plans.values(), ({ name: plan, shadow }) => {
      const tried = shadow === undefined ? undefined : live.shadow.plan(plan)
      return {
        plan,
        clients: of.get(plan) ?? 0,
        /** Requests admitted since 00:00Z; null: not kept, or the store is away. */
        admittedToday: admitted && (admitted.get(plan) ?? 0),
        /** Clients that were seen to use more than 80 % of a window; tokens handed to other processes count as used. */
        over80: near.get(plan) ?? 0,
        /** Requests that the plan's shadow limits would have refused, as in GET /api/shadow; null: it has none. */
        shadowRefused: tried ? refusedOf(tried) : null,
        /** Requests that the shadow limits could not judge: as many may be missing in `shadowRefused`. */
        shadowUnjudged: tried?.unjudged ?? null,
      }
    }),
    counts: {
      clients: clients.size,
      keys: clients.keyCount,
      bannedKeys: bans && bans.length,
      /** Clients that this gateway has refused for quota in the last ten seconds. */
      limitedClients: live.clients
        .refusedNow(now, planOf)
        .filter(({ refusals }) => refusals.by !== 'ban').length,
      keysExpiring: clients.countEnding(nowMs, nowMs + EXPIRING_MS),
    },
  }
}

const line = (
  kind: Attention['kind'],
  severity: Attention['severity'],
  text: string,
  { since = null, subject = null }: Partial<Pick<Attention, 'since' | 'subject'>> = {},
): Attention => ({ kind, severity, text, since, subject })

const worstFirst = (lines: readonly Attention[]): Attention[] =>
  ['bad', 'warn'].flatMap((wanted) => lines.filter(({ severity }) => severity === wanted))

/** Worst first; who is refused has room, whatever else is wrong. */
export function attention(parts: OverviewParts, nowMs: number): Attention[] {
  const lines = (of: (parts: OverviewParts, nowMs: number) => Attention[]) => of(parts, nowMs)
  const before = [storeLines, backendLines, reloadLines, staleLines].flatMap(lines)
  const after = [unsavedLines, logLines, certificateLines, keyLines, mistakeLines].flatMap(lines)
  const refused = clientLines(parts, nowMs)
  const others = worstFirst([...before, ...after]).slice(0, SHOWN - Math.min(1, refused.length))
  const clients = firstOf(refused, SHOWN - others.length)
  const kept = new Set([...others, ...clients])
  return worstFirst([...before, ...clients, ...after].filter((one) => kept.has(one)))
}

/** The last of them names the next client, and says how many more there are. */
function firstOf(lines: readonly Attention[], most: number): Attention[] {
  const [next, ...others] = lines.slice(most)
  if (next === undefined) return [...lines]
  const more =
    others.length > 0 ? `are ${next.subject} and ${others.length} more` : `is ${next.subject}`
  return lines
    .slice(0, most)
    .map((one, at) => (at === most - 1 ? { ...one, text: `${one.text}; so ${more}` } : one))
}

const clock = (since: string | null | undefined): string =>
  since ? ` since ${since.slice(11, 19)}Z` : ''

function storeLines({ store, live, reloads }: OverviewParts): Attention[] {
  const { available, cause, refusal } = store()
  const since = live.changes.storeAwaySince
  if (refusal !== undefined)
    return [line('store', 'bad', `The store refuses this gateway: ${refusal}`, { since })]
  if (available) return []
  const text = `The store is away${clock(since)} (${cause ?? 'no answer'}); onOutage is ${reloads.config.store.onOutage}`
  return [line('store', 'bad', text, { since })]
}

function backendLines({ backends }: OverviewParts): Attention[] {
  const all = backends()
  const unwell = all.filter(({ state }) => state !== 'up')
  return unwell.slice(0, SHOWN_BACKENDS).map(({ name, state, since, fault }, at): Attention => {
    const others = unwell.length - SHOWN_BACKENDS
    const more = at === SHOWN_BACKENDS - 1 && others > 0 ? `; and ${others} more` : ''
    const out = `${unwell.length} of ${all.length} ${unwell.length === 1 ? 'is' : 'are'} not up`
    const text = `Backend ${name} (${out}) is ${state}${clock(since)}: ${fault ?? 'unknown'}${more}`
    return line('backend', 'bad', text, { since: since ?? null, subject: name })
  })
}

function reloadLines({ reloads, live }: OverviewParts): Attention[] {
  const { fault, config } = reloads
  const { reloadRefusedAt: since, outdated } = live.changes
  if (fault !== undefined)
    return [line('reload', 'warn', `The latest reload was refused: ${fault}`, { since })]
  const text = `The config on disk differs from revision ${config.revision} in force; compare it, then reload`
  return outdated === config ? [line('reload', 'warn', text)] : []
}

function staleLines({ live }: OverviewParts, nowMs: number): Attention[] {
  const reportedMs = live.latest === null ? live.startedAtMs : Date.parse(live.latest.at) + 1000
  if (nowMs - reportedMs < STALE_MS) return []
  const since = new Date(reportedMs).toISOString()
  return [line('stale', 'bad', `No worker has reported anything${clock(since)}`, { since })]
}

function clientLines({ live, reloads }: OverviewParts, nowMs: number): Attention[] {
  const now = Math.floor(nowMs / 1000)
  const refused = live.clients.refusedNow(now, planInForce(reloads.config))
  return refused.map(({ client, plan, refusals }): Attention => {
    const since = new Date(refusals.since * 1000).toISOString()
    const rate = Number(refusals.perSecond(now).toPrecision(2))
    // The minute is soon over, and named only where no longer window is used up.
    const spent = windowNames.slice(1).findLast((name) => {
      const use = live.clients.get(client, now)?.[name]
      return refusals.by === name || (use && use.used >= use.limit)
    })
    const quota = `${spent ?? 'minute'} quota used up`
    const why = refusals.by !== 'ban' ? quota : `a key is banned${spent ? `, and ${quota}` : ''}`
    const text = `${client} (${plan}) is refused${clock(since)}, ${rate}/s: ${why}`
    return line('client', 'warn', text, { since, subject: client })
  })
}

function unsavedLines({ unsavedSeconds }: OverviewParts): Attention[] {
  const seconds = unsavedSeconds()
  if (seconds <= UNSAVED_SECONDS) return []
  const text = `Counters were not kept for ${Math.round(seconds)} s; a crash now would forget them`
  return [line('unsaved', 'bad', text)]
}

function logLines({ logFault }: OverviewParts): Attention[] {
  const fault = logFault()
  return fault === undefined ? [] : [line('log', 'bad', fault.replace(/^the/, 'The'))]
}

function mistakeLines({ reloads }: OverviewParts): Attention[] {
  const [first, ...others] = likelyMistakes(reloads.config)
  if (first === undefined) return []
  const { path, message } = first
  // Under Config it stands with its remedy.
  const text = `${formatPath(path)} ${message.slice(0, message.lastIndexOf('; '))}`
  return [line('config', 'warn', others.length > 0 ? `${text}; and ${others.length} more` : text)]
}

function certificateLines({ reloads }: OverviewParts, nowMs: number): Attention[] {
  return reloads.config.certificates.flatMap(({ setting, endsAtMs }): Attention[] => {
    const end = describeEnd(endsAtMs, nowMs)
    if (end === undefined) return []
    const text = `The certificate of ${setting} ${end}; renew it, then reload`
    return [line('certificate', endsAtMs <= nowMs ? 'bad' : 'warn', text, { subject: setting })]
  })
}

function keyLines({ reloads }: OverviewParts, nowMs: number): Attention[] {
  const { clients } = reloads.config
  const count = clients.countEnding(nowMs, nowMs + 7 * DAY_MS)
  const first = count === 0 ? undefined : clients.firstEnding(nowMs)
  if (first === undefined) return []
  const { id, expiresAtMs = 0 } = first.key
  const others = count > 1 ? `; ${count - 1} more within 7 days` : ''
  const on = `${relative(expiresAtMs, nowMs)}, ${clockOf(expiresAtMs, nowMs)}`
  const text = `Key ${id} of ${first.client.id} expires ${on}${others}`
  return [line('key', 'warn', text, { subject: id })]
}

/** Longest time that an overview waits for the numbers. */
const WAIT_MS = 500
/** Pause between two readings: FRESH_MS, or REST times the duration of the last if that is longer. */
const FRESH_MS = 1_000
const REST = 20

/**
 * Returns what gives the requests admitted since 00:00Z, by plan, from the store; null: not known, or not yet. day: reads one row
 * for each client and plan of a day, in pieces.
 */
export function createAdmittedToday(day: (day: number) => AsyncIterable<readonly DayRow[]>) {
  let known: { readonly day: number; readonly plans: ReadonlyMap<string, number> } | undefined
  let reading: Promise<void> | undefined
  let freshUntilMs = -Infinity
  const read = async (today: number, startMs = performance.now()): Promise<void> => {
    try {
      const plans = new Map<string, number>()
      for await (const rows of day(today))
        for (const { plan, admitted } of rows) plans.set(plan, (plans.get(plan) ?? 0) + admitted)
      known = { day: today, plans }
    } catch {
      known = undefined
    }
    const endMs = performance.now()
    freshUntilMs = endMs + Math.max(FRESH_MS, REST * (endMs - startMs))
    reading = undefined
  }
  return async (nowMs: number): Promise<ReadonlyMap<string, number> | null> => {
    const today = Math.floor(nowMs / DAY_MS)
    if (performance.now() > freshUntilMs) reading ??= read(today)
    await Promise.race([reading, sleep(WAIT_MS, undefined, { ref: false })])
    return known?.day === today ? known.plans : null
  }
}
