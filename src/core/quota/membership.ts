/**
 * Who shares the limits: each process tells the authority once a second that it lives, and hears of the others; so it knows its
 * share of every limit, of clients that it has never met too, before the authority is lost.
 *
 * Shares sum to exactly the limit if each process that has one is known to all others that have. So who joins has none until each
 * of the others has spoken since, and who falls silent keeps its own for some beats. If some know sooner than others that one is
 * gone, it does no harm: without it each share is as large or larger, and still they sum to the limit.
 */
import type { Authority, Beats } from '../../state/quota.ts'
import type { Timers } from '../../state/timers.ts'

const BEAT_EVERY_MS = 1_000
/** Who has said nothing new in more answers is gone. Not a time: while the authority is away nobody can speak. */
const SILENT_ANSWERS = 5

interface Other {
  /** The latest that was told. */
  readonly beat: number
  /** Told since, the first time included. */
  answers: number
  /** Since this process joined, of which it so knows. */
  readonly hasSpoken: boolean
}

export interface MembershipOptions {
  readonly authority: Authority
  readonly timers: Timers
  readonly processId: string
  /** Known before the first answer: this is `number` of so many. */
  readonly processes: number
  readonly number: number
}

export class Membership {
  readonly #options: MembershipOptions
  /** By name, those that are gone and still told of included. */
  readonly #heard = new Map<string, Other>()
  /** Names of this process and the others that live; until the first answer their numbers. All three written by #hear. */
  #own: string
  #others: readonly string[]
  /** All others know of this process. */
  #isKnown = true
  readonly #stopBeating: () => void

  constructor(options: MembershipOptions) {
    const { authority, timers, processes, number } = options
    this.#options = options
    this.#own = String(number)
    const names = Array.from({ length: processes }, (_, at) => String(at + 1))
    this.#others = names.filter((name) => name !== this.#own)
    this.#stopBeating = timers.every(BEAT_EVERY_MS, () => this.#beat())
    // Once only: with more than one beat a second the silence of others would look longer than it is.
    authority.onReturn?.(() => void (this.hasHeard || this.#beat()))
    this.#beat()
  }

  get isAlone(): boolean {
    return this.#others.length === 0
  }

  /** Of a number of tokens of the client. What does not divide goes to the first in an order that each client has of its own. */
  shareOf(client: string): (tokens: number) => number {
    if (!this.#isKnown) return () => 0
    const own = placeOf(this.#own, client)
    const before = this.#others.filter((name) => {
      const place = placeOf(name, client)
      return place < own || (place === own && name < this.#own)
    }).length
    const processes = this.#others.length + 1
    return (tokens) => Math.max(0, Math.ceil((tokens - before) / processes))
  }

  /** This process admits nothing any more. */
  leave(): void {
    this.#stopBeating()
    this.#beat(true)
  }

  /** The authority has told who else lives. */
  get hasHeard(): boolean {
    return this.#own === this.#options.processId
  }

  #beat(isLast = false): void {
    const { authority, processId: process } = this.#options
    const unanswered = (): void => undefined
    try {
      authority.beat?.({ process, isLast }).then((beats) => this.#hear(beats), unanswered)
    } catch {
      // Known to be away: what was heard last stays true.
    }
  }

  #hear(beats: Beats): void {
    if (!this.hasHeard) this.#isKnown = false
    this.#own = this.#options.processId
    for (const [name, beat] of beats) {
      const other = this.#heard.get(name)
      if (name !== this.#own && other?.beat !== beat)
        this.#heard.set(name, { beat, answers: 0, hasSpoken: other !== undefined })
    }
    for (const [name, other] of this.#heard)
      if (++other.answers > SILENT_ANSWERS && !beats.has(name)) this.#heard.delete(name)
    const living = [...this.#heard].filter(([, { answers }]) => answers <= SILENT_ANSWERS)
    this.#others = living.map(([name]) => name)
    this.#isKnown ||= living.every(([, { hasSpoken }]) => hasSpoken)
  }
}

/** FNV-1a of both names, mixed once more, as the last few letters would not reach every bit. */
function placeOf(process: string, client: string): number {
  let hash = 0x811c9dc5
  for (const text of [process, client])
    for (let at = 0; at < text.length; at++)
      hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  return (hash ^ (hash >>> 13)) >>> 0
}
