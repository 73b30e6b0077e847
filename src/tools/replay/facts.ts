/** What the lines of a log that are no requests tell of why requests were answered as they were. */
import type { BansConfig } from '../../config/config.ts'
import type { LogNote } from '../log-files/batch.ts'
import { MINUTE_MS } from '../../config/time.ts'

/** Unix time in ms, both ends in it. */
interface Span {
  readonly fromMs: number
  untilMs: number
}

export interface FactsOptions {
  /** In short, as the lines have it. */
  readonly revision: string
  /** Over a restart. */
  readonly forgets: boolean
  readonly bans: Pick<BansConfig, 'withinMs' | 'forgetAfterMs'>
}

/** News of a ban, and the use that is stated after an outage, are everywhere within a second; twice that on a machine that is busy. */
export const NEWS_MS = 2_000

/** A start waits for the store, for no longer than this. */
const START_MS = 10_000
/** Of a process, whose outages are over with it. */
const ends: ReadonlySet<LogNote['event']> = new Set([
  'listening',
  'drained',
  'crash',
  'workerStopped',
  'workerCrashed',
])

export class Facts {
  /** Revisions that gateways took, of which lines of before do not tell. */
  readonly taken = new Set<string>()
  readonly #options: FactsOptions
  /** Of a client and a window of it: when operators have set back its use. */
  readonly #resets = new Map<string, number[]>()
  /** Of a key: bans by operators, and lifts, which end at once. */
  readonly #acts = new Map<string, Span[]>()
  /** Of a key, for strikes. */
  readonly #bans = new Map<string, Span[]>()
  readonly #outages: Span[] = []
  /** Those that go on: of a process, the store or that of bans. */
  readonly #lost = new Map<string, Span>()
  /** When gateways were started. */
  readonly #starts: number[] = []
  /** Minutes in which lines are missing. */
  readonly #gaps = new Set<number>()

  constructor(options: FactsOptions) {
    this.#options = options
  }

  hear({ event, atMs, process, fields }: LogNote): void {
    const [, store = '', change] = /^(store|banStore)(Lost|Back)$/.exec(event) ?? []
    if (change !== undefined) this.#end(atMs, (name) => name === `${store} ${process}`)
    if (change === 'Lost') {
      const outage = { fromMs: atMs, untilMs: Infinity }
      this.#outages.push(outage)
      this.#lost.set(`${store} ${process}`, outage)
    }
    if (ends.has(event)) {
      // A store that is away is told of before the listeners are.
      const beforeMs = event === 'listening' ? atMs - START_MS : Infinity
      this.#end(atMs, (name, { fromMs }) => isOf(name, process) && fromMs < beforeMs)
    }
    if (event === 'linesSuppressed' || event === 'linesDropped' || event === 'clockWentBack')
      for (const gapMs of [atMs - NEWS_MS, atMs]) this.#gaps.add(Math.floor(gapMs / MINUTE_MS))
    if (event === 'listening') this.#starts.push(atMs)
    if (event === 'configTaken')
      this.taken.add(String(fields['revision']).slice(0, this.#options.revision.length))
    // What was refused has changed nothing.
    if (event === 'audit' && fields['status'] === 200) this.#acted(atMs, fields)
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

  #acted(atMs: number, { action, id, key, window, after }: LogNote['fields']): void {
    if (action === 'resetUsage')
      for (const one of window === 'both' ? ['minute', 'day'] : [String(window)])
        pushTo(this.#resets, `${one} ${String(id)}`, atMs)
    if (action !== 'ban' && action !== 'liftBan') return
    const { until = '' } = Object(after) as { until?: string }
    const acts = this.#acts.get(String(key))?.at(-1)
    // Another act on the key ends the ban before it.
    if (acts !== undefined) acts.untilMs = Math.min(acts.untilMs, atMs)
    pushTo(this.#acts, String(key), { fromMs: atMs, untilMs: Date.parse(until) || atMs })
  }

  hasStartedBy(atMs: number): boolean {
    return this.#starts.some((startMs) => startMs <= atMs)
  }

  /** For strikes. */
  banOf(keyId: string, atMs: number): Span | undefined {
    return this.#bans.get(keyId)?.find((one) => atMs >= one.fromMs && atMs <= one.untilMs)
  }

  isReset(client: string, window: 'minute' | 'day', sinceMs: number, atMs: number): boolean {
    const resets = this.#resets.get(`${window} ${client}`) ?? []
    return resets.some((ms) => ms >= sinceMs && ms <= atMs + NEWS_MS)
  }

  /** Whether a ban of the key by an operator was in force since, or one ended. */
  isActedOn(keyId: string, sinceMs: number, atMs: number): boolean {
    const acts = this.#acts.get(keyId) ?? []
    return acts.some(
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

  /** Whether a gateway that remembers nothing was started meanwhile; not the first. */
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

/** Whether a store is that of this process, or of a worker of it. */
const isOf = (name: string, process: string): boolean => {
  const its = name.slice(name.indexOf(' ') + 1)
  return its === process || its.startsWith(`${process}/`)
}
