/**
 * Who shares the limits: every process tells the authority once a second that it lives, and hears of the others, so that each
 * knows its share of every limit, of clients that it has never met too, before the authority is lost.
 *
 * Shares sum to exactly the limit, provided that each process which has one is known to all others that have. So a process that
 * joins has none until each of the others has spoken since, and one that falls silent keeps its own for some beats. Who knows
 * sooner than others that a process is gone does no harm: without it shares are as large or larger, and still sum to the limit.
 */
import type { Authority, Beats } from '../protocol.ts'
import type { Timers } from '../timers.ts'

const BEAT_EVERY_MS = 1_000
/** A process that has said nothing new in so many answers is gone. Counted in answers, since nobody can speak while the authority is away. */
const SILENT_ANSWERS = 4

interface Other {
  /** As it was told last. */
  beat: number
  /** Since that was news, the answer with the news included. */
  answers: number
  /** It has spoken since this process joined, and so knows of it. */
  hasSpoken: boolean
}

export interface MembershipOptions {
  readonly authority: Authority
  readonly timers: Timers
  readonly processId: string
  /** Known from the start: this process is `number` of so many. */
  readonly processes: number
  readonly number: number
}

export class Membership {
  readonly #options: MembershipOptions
  /** By name; until the first answer those that are known from the start, which go by their numbers. */
  readonly #others = new Map<string, Other>()
  #own: string
  /** All others know of this process, or none is known but from the start. Written by #hear. */
  #isKnown = true
  readonly #stopBeating: () => void

  constructor(options: MembershipOptions) {
    const { authority, timers, processes, number } = options
    this.#options = options
    this.#own = String(number)
    for (let other = 1; other <= processes; other++)
      if (other !== number) this.#others.set(String(other), joined(0))
    this.#stopBeating = timers.every(BEAT_EVERY_MS, () => this.#beat())
    // Sooner the first time; more beats than one a second would make the silence of others look longer than it is.
    authority.onReturn?.(() => void (this.#hasHeard || this.#beat()))
    this.#beat()
  }

  get isAlone(): boolean {
    return this.#others.size === 0
  }

  /**
   * This process's share of a number of tokens of the client. What does not divide goes to those whose names come first, in
   * an order that each client has of its own, and which stays when somebody leaves.
   */
  shareOf(client: string): (tokens: number) => number {
    if (!this.#isKnown) return () => 0
    const own = placeOf(this.#own, client)
    let before = 0
    for (const name of this.#others.keys()) {
      const place = placeOf(name, client)
      if (place < own || (place === own && name < this.#own)) before += 1
    }
    const processes = this.#others.size + 1
    return (tokens) => Math.max(0, Math.ceil((tokens - before) / processes))
  }

  /** This process admits nothing any more. */
  leave(): void {
    this.#stopBeating()
    this.#beat(true)
  }

  get #hasHeard(): boolean {
    return this.#own === this.#options.processId
  }

  #beat(isLast = false): void {
    const { authority, processId } = this.#options
    const unanswered = (): void => undefined
    try {
      authority
        .beat?.({ process: processId, isLast })
        .then((beats) => this.#hear(beats), unanswered)
    } catch {
      // Known to be away: what was heard last stays true.
    }
  }

  #hear(beats: Beats): void {
    const { processId } = this.#options
    if (!this.#hasHeard) {
      this.#own = processId
      this.#others.clear()
      this.#isKnown = false
    }
    for (const [name, beat] of beats) {
      const other = this.#others.get(name)
      if (other?.beat === beat || name === processId) continue
      this.#others.set(name, { ...joined(beat), hasSpoken: other !== undefined })
    }
    for (const [name, other] of this.#others)
      if (++other.answers > 1 + SILENT_ANSWERS) this.#others.delete(name)
    this.#isKnown ||= [...this.#others.values()].every(({ hasSpoken }) => hasSpoken)
  }
}

const joined = (beat: number): Other => ({ beat, answers: 0, hasSpoken: false })

/** FNV-1a of both names. */
function placeOf(process: string, client: string): number {
  let hash = 0x811c9dc5
  for (const text of [process, client])
    for (let at = 0; at < text.length; at++)
      hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash >>> 0
}
