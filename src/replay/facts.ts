/** What the lines of a log that are no requests tell of why requests were answered as they were. */
import type { BansConfig } from '../config/config.ts'
import type { LogNote } from '../log-files/batch.ts'
import { MINUTE_MS } from '../rules/time.ts'

/** Unix time in ms, both ends in it. */
interface Span {
  readonly fromMs: number
  untilMs: number
}

/** hasOlder: it is longer than those before it in the log would make it. */
export type BanSpan = Span & { readonly hasOlder: boolean }

const acts = ['resetUsage', 'ban', 'liftBan'] as const
/** Until when a ban of an operator lasts. */
type Act = Span & { readonly act: (typeof acts)[number]; readonly window: unknown }

export interface FactsOptions {
  /** In short, as the lines have it. */
  readonly revision: string
  /** Over a restart. */
  readonly forgets: boolean
  readonly bans: Pick<BansConfig, 'strikes' | 'withinMs' | 'durationMs' | 'growth'>
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
  /** Of a client or a key: what operators have done to it. */
  readonly #acts = new Map<string, Act[]>()
  readonly #bans = new Map<string, BanSpan[]>()
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
    if (event === 'audit') this.#acted(atMs, fields)
    if (event === 'keyBanned') {
      const key = String(fields['key'])
      const forMs = Number(fields['forMs'])
      const { durationMs, growth } = this.#options.bans
      const hasOlder = forMs > durationMs * growth ** (this.#bans.get(key)?.length ?? 0)
      const span = { fromMs: atMs - NEWS_MS, untilMs: atMs + forMs + NEWS_MS }
      pushTo(this.#bans, key, { ...span, hasOlder })
    }
  }

  #end(atMs: number, isEnded: (name: string, outage: Span) => boolean): void {
    for (const [name, outage] of this.#lost) {
      if (!isEnded(name, outage)) continue
      outage.untilMs = atMs + NEWS_MS
      this.#lost.delete(name)
    }
  }

  #acted(atMs: number, fields: LogNote['fields']): void {
    const act = acts.find((name) => name === fields['action'])
    // What was refused has changed nothing.
    if (act === undefined || fields['status'] !== 200) return
    const { until = '' } = Object(fields['after']) as { until?: string }
    const span = { fromMs: atMs, untilMs: Date.parse(until) || atMs }
    const name = String(fields[act === 'resetUsage' ? 'id' : 'key'])
    pushTo(this.#acts, name, { ...span, act, window: fields['window'] })
  }

  hasStartedBy(atMs: number): boolean {
    return this.#starts.some((startMs) => startMs <= atMs)
  }

  /** For strikes, at this time, or until so long before. */
  banOf(keyId: string, atMs: number, agoMs = 0): BanSpan | undefined {
    return this.#bans.get(keyId)?.find((one) => atMs >= one.fromMs && atMs <= one.untilMs + agoMs)
  }

  isReset(client: string, window: 'minute' | 'day', sinceMs: number, atMs: number): boolean {
    return this.#actsOf(client, atMs).some(
      (one) =>
        one.act === 'resetUsage' &&
        (one.window === window || one.window === 'both') &&
        one.fromMs >= sinceMs,
    )
  }

  /** Whether an operator has banned the key: until that ends, and where he has ended it himself, until all know. */
  isImposed(keyId: string, atMs: number): boolean {
    const acts = this.#actsOf(keyId, atMs).filter(({ act }) => act !== 'resetUsage')
    return acts.some(({ act, untilMs }, nth) => {
      const next = acts[nth + 1]?.fromMs ?? Infinity
      return act === 'ban' && atMs <= Math.min(untilMs, next) + NEWS_MS
    })
  }

  /** Whether an operator has ended, or replaced, a ban of the key since. */
  isLifted(keyId: string, sinceMs: number, atMs: number): boolean {
    return this.#actsOf(keyId, atMs).some(
      ({ act, fromMs }) => act !== 'resetUsage' && fromMs >= sinceMs,
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

  #actsOf(name: string, atMs: number): readonly Act[] {
    return (this.#acts.get(name) ?? []).filter(({ fromMs }) => fromMs <= atMs + NEWS_MS)
  }
}

export function pushTo<T>(lists: Map<string, T[]>, name: string, value: T, most = Infinity): void {
  const list = lists.get(name)
  if (list === undefined) lists.set(name, [value])
  else if (list.push(value) > most) list.shift()
}

/** Whether a store is that of this process, or of a worker of it. */
const isOf = (name: string, process: string): boolean => {
  const its = name.slice(name.indexOf(' ') + 1)
  return its === process || its.startsWith(`${process}/`)
}
