/** Collects the log lines that explain why requests were answered as they were. */
import type { BansConfig } from '../../config/config.ts'
import type { LogNote } from '../log-files/lines.ts'
import { MINUTE_MS } from '../../config/time.ts'

/** A span in Unix time in ms; both ends belong to it. */
interface Span {
  readonly fromMs: number
  untilMs: number
}

export interface FactsOptions {
  /** The revision in short, as in lines of the log. */
  readonly revision: string
  /** Whether a restart loses all use. */
  readonly forgets: boolean
  readonly bans: Pick<BansConfig, 'withinMs' | 'forgetAfterMs'>
}

/** News of a ban, and of use after an outage, reach all processes within a second; a busy machine takes twice as long. */
export const NEWS_MS = 2_000

/** Longest wait of a start for the store. */
const START_MS = 10_000
/** Events that show that a process ended, and its outages with it. */
const endEvents: ReadonlySet<LogNote['event']> = new Set([
  'listening',
  'drained',
  'crash',
  'workerStopped',
  'workerCrashed',
])

export class Facts {
  readonly #options: FactsOptions
  /** Unix times in ms at which operators reset use, by window and client. */
  readonly #resets = new Map<string, number[]>()
  /** Bans and lifts by operators, by key; lifts end at once. */
  readonly #operatorBans = new Map<string, Span[]>()
  /** Bans for strikes, by key. */
  readonly #bans = new Map<string, Span[]>()
  readonly #outages: Span[] = []
  /** Outages that are not over, by store (of quotas or bans) and process. */
  readonly #lost = new Map<string, Span>()
  /** Unix times in ms at which gateways were started. */
  readonly #starts: number[] = []
  /** Minutes in which lines are missing. */
  readonly #gaps = new Set<number>()

  constructor(options: FactsOptions) {
    this.#options = options
  }

  applyNote({ event, atMs, process, fields }: LogNote): void {
    const [, store = '', change] = /^(store|banStore)(Lost|Back)$/.exec(event) ?? []
    if (change !== undefined) this.#end(atMs, (name) => name === `${store} ${process}`)
    if (change === 'Lost') {
      const outage = { fromMs: atMs, untilMs: Infinity }
      this.#outages.push(outage)
      this.#lost.set(`${store} ${process}`, outage)
    }
    if (endEvents.has(event)) {
      // The outage of a store is logged before the listeners.
      const beforeMs = event === 'listening' ? atMs - START_MS : Infinity
      this.#end(atMs, (name, { fromMs }) => isOf(name, process) && fromMs < beforeMs)
    }
    if (event === 'linesSuppressed' || event === 'linesDropped' || event === 'clockWentBack')
      for (const gapMs of [atMs - NEWS_MS, atMs]) this.#gaps.add(Math.floor(gapMs / MINUTE_MS))
    if (event === 'listening') this.#starts.push(atMs)
    // A refused action has changed nothing.
    if (event === 'audit' && fields['status'] === 200) this.#applyAction(atMs, fields)
    if (event === 'keyBanned') {
      const untilMs = atMs + Number(fields['forMs']) + NEWS_MS
      pushTo(this.#bans, String(fields['key']), { fromMs: atMs - NEWS_MS, untilMs })
    }
  }

  #end(atMs: number, isEnded: (name: string, outage: Span) => boolean): void {
    for (const [name, outage] of this.#lost) {
      if (!isEnded(name, outage)) continue
      outage.untilMs = atMs + NEWS_MS
      this.#lost.delete(name)
    }
  }

  #applyAction(atMs: number, { action, id, key, window, after }: LogNote['fields']): void {
    if (action === 'resetUsage')
      for (const one of window === 'both' ? ['minute', 'day'] : [String(window)])
        pushTo(this.#resets, `${one} ${String(id)}`, atMs)
    if (action !== 'ban' && action !== 'liftBan') return
    const { until = '' } = Object(after) as { until?: string }
    const last = this.#operatorBans.get(String(key))?.at(-1)
    // Another action on the key ends its earlier ban.
    if (last !== undefined) last.untilMs = Math.min(last.untilMs, atMs)
    pushTo(this.#operatorBans, String(key), { fromMs: atMs, untilMs: Date.parse(until) || atMs })
  }

  hasStartedBy(atMs: number): boolean {
    return this.#starts.some((startMs) => startMs <= atMs)
  }

  /** The ban for strikes that a key has at this time. */
  banOf(keyId: string, atMs: number): Span | undefined {
    return this.#bans.get(keyId)?.find((one) => atMs >= one.fromMs && atMs <= one.untilMs)
  }

  isReset(client: string, window: 'minute' | 'day', sinceMs: number, atMs: number): boolean {
    const resets = this.#resets.get(`${window} ${client}`) ?? []
    return resets.some((ms) => ms >= sinceMs && ms <= atMs + NEWS_MS)
  }

  /** Whether a ban of the key by an operator was in force or ended between these times. */
  hasOperatorBan(keyId: string, sinceMs: number, atMs: number): boolean {
    const bans = this.#operatorBans.get(keyId) ?? []
    return bans.some(
      ({ fromMs, untilMs }) => fromMs <= atMs + NEWS_MS && untilMs + NEWS_MS >= sinceMs,
    )
  }

  wasLost(sinceMs: number, atMs: number): boolean {
    return this.#outages.some(
      ({ fromMs, untilMs }) => fromMs - NEWS_MS <= atMs && untilMs >= sinceMs,
    )
  }

  isWhole(sinceMs: number, atMs: number): boolean {
    if (this.#gaps.size === 0) return true
    for (let ms = sinceMs; ms <= atMs + MINUTE_MS; ms += MINUTE_MS)
      if (this.#gaps.has(Math.floor(ms / MINUTE_MS))) return false
    return true
  }

  /** Whether a restart, not the first start, has lost all use between these times. */
  hasForgotten(firstMs: number, sinceMs: number, atMs: number): boolean {
    return (
      this.#options.forgets &&
      this.#starts.some((ms) => ms > firstMs && ms >= sinceMs && ms <= atMs)
    )
  }
}

function pushTo<T>(lists: Map<string, T[]>, name: string, value: T): void {
  const list = lists.get(name)
  if (list === undefined) lists.set(name, [value])
  else list.push(value)
}

/** Whether an outage is that of this process, or of a worker of it. */
const isOf = (name: string, process: string): boolean => {
  const its = name.slice(name.indexOf(' ') + 1)
  return its === process || its.startsWith(`${process}/`)
}
