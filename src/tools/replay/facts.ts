/** Collects the log lines that explain why requests were answered as they were. */
import type { LogNote } from '../log-files/lines.ts'
import { MINUTE_MS, windowNames } from '../../config/time.ts'

/** What happened: an outage of a store, missing lines, the start of a gateway; of a key: a ban for strikes, or by an operator; of a client: a reset. */
type FactName =
  'outage' | 'gap' | 'start' | `ban ${string}` | `operator ban ${string}` | `reset of ${string}`

/** The time in which a fact may show in answers, in Unix time in ms; both ends belong to it. */
interface Span {
  readonly fromMs: number
  untilMs: number
}

/** News of a ban, and of use after an outage, reach all processes within a second; a busy machine takes twice as long. */
export const NEWS_MS = 2_000

export const startOf = (atMs: number, lengthMs: number): number =>
  Math.floor(atMs / lengthMs) * lengthMs

export class Facts {
  readonly #spans = new Map<FactName, Span[]>()

  /** The first of these facts that may show in answers between these times. */
  during(name: FactName, sinceMs: number, atMs: number): Span | undefined {
    const spans = this.#spans.get(name)
    return spans?.find(({ fromMs, untilMs }) => fromMs <= atMs && untilMs >= sinceMs)
  }

  applyNote({ event, atMs, fields }: LogNote): void {
    if (event === 'storeLost' || event === 'banStoreLost') this.#beginOutage(atMs - NEWS_MS)
    if (event === 'storeBack' || event === 'banStoreBack') this.#endLast('outage', atMs)
    if (event === 'linesSuppressed' || event === 'linesDropped' || event === 'clockWentBack')
      this.#addGap(atMs)
    // Only the line of a start names a store, and it comes before the first request of any worker.
    if (event === 'configTaken' && 'store' in fields) this.#add('start', atMs, atMs)
    if (event === 'startFailed') this.#spans.get('start')?.pop()
    // A refused action has changed nothing.
    if (event === 'audit' && fields['status'] === 200) this.#applyAction(atMs, fields)
    if (event === 'keyBanned') {
      const untilMs = atMs + Number(fields['forMs']) + NEWS_MS
      this.#add(`ban ${String(fields['key'])}`, atMs - NEWS_MS, untilMs)
    }
  }

  #add(name: FactName, fromMs: number, untilMs: number): void {
    const spans = this.#spans.get(name)
    if (spans === undefined) this.#spans.set(name, [{ fromMs, untilMs }])
    else spans.push({ fromMs, untilMs })
  }

  /** Any process that has the store again ends it: one that died meanwhile never says so. */
  #beginOutage(fromMs: number): void {
    if (this.#spans.get('outage')?.at(-1)?.untilMs !== Infinity)
      this.#add('outage', fromMs, Infinity)
  }

  #endLast(name: FactName, atMs: number): void {
    const last = this.#spans.get(name)?.at(-1)
    if (last !== undefined) last.untilMs = Math.min(last.untilMs, atMs + NEWS_MS)
  }

  /** The note comes up to a minute after the lines that are missing. */
  #addGap(atMs: number): void {
    const fromMs = startOf(atMs - NEWS_MS, MINUTE_MS) - MINUTE_MS
    const untilMs = startOf(atMs, MINUTE_MS) + MINUTE_MS - 1
    const last = this.#spans.get('gap')?.at(-1)
    // Notes that follow each other make one long gap, however many they are.
    if (last === undefined || fromMs < last.fromMs || fromMs > last.untilMs)
      this.#add('gap', fromMs, untilMs)
    else last.untilMs = Math.max(last.untilMs, untilMs)
  }

  #applyAction(atMs: number, { action, id, key, window, after }: LogNote['fields']): void {
    if (action === 'resetUsage')
      for (const one of windowNames)
        if (window === 'both' || window === one)
          this.#add(`reset of ${one} ${String(id)}`, atMs - NEWS_MS, atMs)
    if (action !== 'ban' && action !== 'liftBan') return
    const name = `operator ban ${String(key)}` as const
    const { until = '' } = Object(after) as { until?: string }
    // Another action on the key ends its earlier ban; a lift ends at once.
    this.#endLast(name, atMs)
    this.#add(name, atMs - NEWS_MS, (Date.parse(until) || atMs) + NEWS_MS)
  }
}
