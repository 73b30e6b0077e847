/**
 * Knows which processes share the limits: each reports to the authority once a second that it lives, and receives the others'
 * reports. So it knows its share of every limit before the authority is lost, even for clients it has never met.
 *
 * Shares sum to exactly the limit if each process that has one is known to all others that have. So a process that joins has
 * none until each of the others has reported since, and one that falls silent keeps its own for some beats. It does no harm if
 * some notice sooner than others that a process is gone: without it each share is as large or larger, and still they sum to the
 * limit at most.
 */
import type { Authority, Beats } from '../../state/quota.ts'
import type { Timers } from '../../state/timers.ts'

const BEAT_EVERY_MS = 1_000
/** A process is gone after more answers than this without a newer beat. Time does not count, as no process can report in an outage. */
const SILENT_ANSWERS = 5

interface Other {
  readonly beat: number
  /** Answers since that beat, including the first that had it. */
  answers: number
  /** It has reported since this process joined, so that it knows of this process. */
  readonly hasSpoken: boolean
}

export interface MembershipOptions {
  readonly authority: Authority
  readonly timers: Timers
  readonly processId: string
  /** Known before the first answer: this process is `number` of so many. */
  readonly processes: number
  readonly number: number
}

export class Membership {
  readonly #options: MembershipOptions
  /** Other processes by name, including those gone but still reported. */
  readonly #records = new Map<string, Other>()
  /** Names of this process and the other living ones; their numbers until the first answer. All three are written by #receive. */
  #own: string
  #others: readonly string[]
  /** All other processes know of this one. */
  #isKnown = true
  readonly #stopBeating: () => void

  constructor(options: MembershipOptions) {
    const { authority, timers, processes, number } = options
    this.#options = options
    this.#own = String(number)
    const names = Array.from({ length: processes }, (_, at) => String(at + 1))
    this.#others = names.filter((name) => name !== this.#own)
    this.#stopBeating = timers.every(BEAT_EVERY_MS, () => this.#beat())
    // Only a process without an answer beats at once: extra answers would make the others count as silent too soon.
    authority.onReturn?.(() => void (this.hasAnswer || this.#beat()))
    this.#beat()
  }

  get isAlone(): boolean {
    return this.#others.length === 0
  }

  /** Returns this process's share of a number of tokens; what does not divide goes to the first processes. */
  shareOf(tokens: number): number {
    if (!this.#isKnown) return 0
    const before = this.#others.filter((name) => name < this.#own).length
    return Math.max(0, Math.ceil((tokens - before) / (this.#others.length + 1)))
  }

  /** Called when this process admits no more requests. */
  leave(): void {
    this.#stopBeating()
    this.#beat(true)
  }

  /** The authority has reported which processes live. */
  get hasAnswer(): boolean {
    return this.#own === this.#options.processId
  }

  #beat(isLast = false): void {
    const { authority, processId: process } = this.#options
    const unanswered = (): void => undefined
    try {
      authority.beat?.({ process, isLast }).then((beats) => this.#receive(beats), unanswered)
    } catch {
      // The authority is known to be away: its latest answer remains valid.
    }
  }

  #receive(beats: Beats): void {
    if (!this.hasAnswer) this.#isKnown = false
    this.#own = this.#options.processId
    for (const [name, beat] of beats) {
      const other = this.#records.get(name)
      if (name !== this.#own && other?.beat !== beat)
        this.#records.set(name, { beat, answers: 0, hasSpoken: other !== undefined })
    }
    for (const [name, other] of this.#records)
      if (++other.answers > SILENT_ANSWERS && !beats.has(name)) this.#records.delete(name)
    const living = [...this.#records].filter(([, { answers }]) => answers <= SILENT_ANSWERS)
    this.#others = living.map(([name]) => name)
    this.#isKnown ||= living.every(([, { hasSpoken }]) => hasSpoken)
  }
}
