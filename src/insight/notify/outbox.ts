/** Queue of webhook notices: each is delivered at least once and retried after growing pauses. The queue is bounded and delays nobody. */
import type { Claims } from '../../state/contract.ts'
import type { Notice } from './webhook.ts'

interface OutboxParts {
  /** Resolves with the reason for a failed delivery; undefined: delivered. Returns no promise when nobody wants the notice any more. */
  post(notice: Notice): Promise<string | undefined> | undefined
  readonly claims: Claims
  /** Called with the reason when delivery begins to fail, and with undefined when it works again. */
  onFault(fault: string | undefined): void
  /** Called for a notice that is dropped because too many wait. */
  onDropped(notice: Notice): void
  /** Nothing is delivered once this is aborted. */
  readonly ended: AbortSignal
}

interface Waiting {
  readonly notice: Notice
  /** Name under which one of several gateways claims the notice; undefined: only this gateway has it. */
  readonly claim: { readonly name: string; readonly untilMs: number } | undefined
  attempts: number
  /** Time of the next attempt, on the clock of performance.now(). */
  dueMs: number
}

const WAITING_AT_MOST = 1_000
const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 60_000
/** Pause before a notice that another gateway has claimed is tried again: the claim ends if that gateway crashes. */
const OTHERS_PAUSE_MS = 5_000

export class Outbox {
  readonly #parts: OutboxParts
  /** This and the fields below are written by add and #run. */
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
    const waitMs = Math.max(0, soonestMs - performance.now())
    if (this.#waiting.size > 0) this.#timer = setTimeout(() => void this.#run(), waitMs).unref()
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
