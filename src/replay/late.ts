/**
 * Differences that nothing explains, as long as a line may come that does: that of a request which was charged before them, and
 * lasted longer than the reading waits for.
 */
import { DAY_MS, MINUTE_MS } from '../rules/time.ts'
import { pushTo } from './facts.ts'
import type { LoggedRequest } from './logged.ts'
import type { Told } from './window-counts.ts'

/** That wait, in all and of one client's window or key. Beyond that they are unexplained. */
const MOST_WAITING = 50_000
const MOST_OF_ONE = 1_000
/** Of a key, the latest. */
const MOST_STRIKES = 20

/** Of the log, of requests that the replay has let in. */
interface Refusals {
  waiting: Told[]
  /** Late charges in whose stead the replay has let in a refused one. */
  claims: number
}
/** It hangs on strikes since then. */
interface Ban {
  readonly told: Told
  readonly sinceMs: number
}

type Window = 'minute' | 'day'
const lengthsMs = { minute: MINUTE_MS, day: DAY_MS }

export class LateLines {
  readonly #refusals = new Map<string, Refusals>()
  readonly #bans = new Map<string, Ban[]>()
  /** That the replay lacks, of keys. Unix time in ms. */
  readonly #strikes = new Map<string, number[]>()
  #waiting = 0

  /** Of those that wait still: no line came. */
  left(): Told[] {
    const bans = [...this.#bans.values()].flat().map(({ told }) => told)
    return [...this.#refusals.values()].flatMap(({ waiting }) => waiting).concat(bans)
  }

  /** false: it cannot wait. */
  keepRefusal(told: Told): boolean {
    if (told.missing === Infinity) return false
    const { request } = told
    const name = nameOf(request.logged === 'minute' ? 'minute' : 'day', request)
    const refusals = this.#refusals.get(name) ?? { waiting: [], claims: 0 }
    if (!this.#hasRoom(refusals.waiting)) return false
    refusals.waiting.push(told)
    this.#refusals.set(name, refusals)
    return true
  }

  keepBan(told: Told, sinceMs: number): boolean {
    const bans = this.#bans.get(told.request.keyId)
    // Of one ban there may be as many as there are requests.
    const same = bans?.find((one) => one.sinceMs === sinceMs && isSame(one.told, told))
    if (same !== undefined) same.told.count += told.count
    else if (this.#hasRoom(bans ?? [])) pushTo(this.#bans, told.request.keyId, { told, sinceMs })
    else return false
    return true
  }

  /** Whether a ban hangs on strikes that the replay lacks for what came late. */
  hasStruck(keyId: string, sinceMs: number, atMs: number): boolean {
    return this.#strikes.get(keyId)?.some((ms) => ms >= sinceMs && ms <= atMs) ?? false
  }

  /** What a line explains that came late. isReplaced: the replay has let in another one for it. */
  come(late: LoggedRequest): { explained: readonly Told[]; isReplaced: boolean } {
    if (late.logged === 'minute' || late.logged === 'day')
      return { explained: this.#strike(late.keyId, late.atMs), isReplaced: false }
    if (late.logged !== 'admitted') return { explained: [], isReplaced: false }
    const explained: Told[] = []
    let isReplaced = false
    for (const window of ['minute', 'day'] as const) {
      const name = nameOf(window, late)
      const refusals = this.#refusals.get(name)
      if (refusals === undefined) continue
      const led = refusals.waiting.filter(({ request }) => isDuring(request.atMs, late))
      for (const one of led) one.missing--
      if (!isReplaced && led.length > refusals.claims) {
        isReplaced = true
        refusals.claims++
      }
      for (const told of this.#claimed(refusals))
        explained.push(told, ...this.#strike(told.request.keyId, told.request.atMs))
      if (refusals.waiting.length === 0) this.#refusals.delete(name)
    }
    return { explained, isReplaced }
  }

  #claimed(refusals: Refusals): Told[] {
    const claimed: Told[] = []
    for (const told of refusals.waiting) {
      if (told.missing > 0 || refusals.claims === 0) continue
      const count = Math.min(told.count, refusals.claims)
      refusals.claims -= count
      told.count -= count
      claimed.push({ ...told, count })
    }
    const left = refusals.waiting.filter(({ count }) => count > 0)
    this.#waiting -= refusals.waiting.length - left.length
    refusals.waiting = left
    return claimed
  }

  #strike(keyId: string, atMs: number): Told[] {
    pushTo(this.#strikes, keyId, atMs, MOST_STRIKES)
    const bans = this.#bans.get(keyId) ?? []
    const hangs = ({ told, sinceMs }: Ban): boolean => atMs >= sinceMs && atMs <= told.request.atMs
    const left = bans.filter((one) => !hangs(one))
    this.#waiting -= bans.length - left.length
    if (left.length > 0) this.#bans.set(keyId, left)
    else this.#bans.delete(keyId)
    return bans.filter(hangs).map(({ told }) => told)
  }

  #hasRoom({ length }: readonly unknown[]): boolean {
    if (this.#waiting >= MOST_WAITING || length >= MOST_OF_ONE) return false
    this.#waiting++
    return true
  }
}

/** Of its client and the minute or day in which it was decided. */
const nameOf = (window: Window, { client, atMs }: LoggedRequest): string =>
  `${window} ${Math.floor(atMs / lengthsMs[window])} ${client}`

const isDuring = (atMs: number, late: LoggedRequest): boolean =>
  atMs >= late.atMs && !(atMs > late.refundedAtMs)

const isSame = (one: Told, other: Told): boolean =>
  one.request.logged === other.request.logged && one.example.replayed === other.example.replayed
