/** What receivers are still to be told: at least once, in a bounded line, again and again with longer pauses. Holds up nobody. */
import type { Claims } from '../../state/claims.ts'
import type { Notice } from './webhook.ts'

export interface OutboxParts {
  /** Resolves with why it was not taken; no promise: nobody is to be told any more. */
  post(notice: Notice): Promise<string | undefined> | undefined
  readonly claims: Claims
  /** Told when the first of several attempts has failed, and when it works again: undefined. */
  onFault(fault: string | undefined): void
  /** Told of one that is given up because too many wait. */
  onDropped(notice: Notice): void
  /** Nothing is told from then on. */
  readonly ended: AbortSignal
}

interface Waiting {
  readonly notice: Notice
  /** What several gateways would tell alike; undefined: this one alone knows of it. */
  readonly claim: { readonly name: string; readonly untilMs: number } | undefined
  attempts: number
  /** Of performance.now(). */
  dueMs: number
}

const WAITING_AT_MOST = 1_000
const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 60_000
/** Until one that others have claimed is looked at again: should they crash, their claim ends. */
const OTHERS_PAUSE_MS = 5_000

export class Outbox {
  readonly #parts: OutboxParts
  /** All written by add and #run. */
  readonly #waiting = new Set<Waiting>()
  #isRunning = false
  #hasFailed = false
  #timer: NodeJS.Timeout | undefined

  constructor(parts: OutboxParts) {
    this.#parts = parts
    parts.ended.addEventListener('abort', () => {
      clearTimeout(this.#timer)
      this.#waiting.clear()
    })
  }

  add(notice: Notice, claim?: Waiting['claim']): void {
    if (this.#parts.ended.aborted) return
    if (this.#waiting.size >= WAITING_AT_MOST) return this.#parts.onDropped(notice)
    this.#waiting.add({ notice, claim, attempts: 0, dueMs: performance.now() })
    void this.#run()
  }

  async #run(): Promise<void> {
    if (this.#isRunning) return
    this.#isRunning = true
    clearTimeout(this.#timer)
    for (let next = this.#due(); next !== undefined; next = this.#due()) await this.#attempt(next)
    this.#isRunning = false
    const soonestMs = Math.min(...Array.from(this.#waiting, ({ dueMs }) => dueMs))
    if (this.#waiting.size > 0)
      this.#timer = setTimeout(
        () => void this.#run(),
        Math.max(0, soonestMs - performance.now()),
      ).unref()
  }

  #due(): Waiting | undefined {
    return [...this.#waiting].find(({ dueMs }) => dueMs <= performance.now())
  }

  async #attempt(waiting: Waiting): Promise<void> {
    const { notice, claim } = waiting
    const { post, claims, onFault, ended } = this.#parts
    const state = claim === undefined ? 'own' : await claims.take(claim.name)
    if (state === 'done') return void this.#waiting.delete(waiting)
    if (state === 'others') return void (waiting.dueMs = performance.now() + OTHERS_PAUSE_MS)
    if (ended.aborted) return
    const answer = post(notice)
    if (answer === undefined) return void this.#waiting.delete(waiting)
    const fault = await answer
    if (ended.aborted) return
    if (fault === undefined) {
      this.#waiting.delete(waiting)
      if (claim !== undefined) await claims.done(claim.name, claim.untilMs)
    } else
      waiting.dueMs =
        performance.now() + Math.min(FIRST_PAUSE_MS * 2 ** waiting.attempts++, LONGEST_PAUSE_MS)
    if (this.#hasFailed !== (fault !== undefined)) onFault(fault)
    this.#hasFailed = fault !== undefined
  }
}
