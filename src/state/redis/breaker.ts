/** Bounds calls, stops them to a store that keeps failing, and probes it until it is back: no request waits for one known to be away. */
import { isKeyFault, isTimeout, timedOut } from './faults.ts'
import { Silence } from '../silence.ts'
import { bounded } from '../timers.ts'

const ERRORS_IN_A_ROW = 3
const PROBE_EVERY_MS = 250
/** A first connection may take so long; one that fails is reported by `lost`. */
const FIRST_PROBE_AFTER_MS = 1000

/** Unavailable until the first probe has succeeded. */
export class StoreBreaker {
  readonly #probe: () => Promise<void>
  readonly #onChange: (available: boolean, isFirst: boolean) => void
  /** undefined: no probe has ended yet. Written by #become and close alone. */
  state: 'up' | 'down' | undefined
  /** Consecutive calls answered with an error. */
  #errors = 0
  readonly #silence = new Silence()
  /** The one call under way to a silent store that is not a probe; resolves when it is answered. Written by call. */
  #trial: Promise<unknown> | undefined
  #isProbing = false
  #isClosed = false
  #nextProbe: NodeJS.Timeout | undefined

  /** probe: resolves if the store works again; must end by itself. onChange: also called when the first state is known. */
  constructor(
    probe: () => Promise<void>,
    onChange: (available: boolean, isFirst: boolean) => void,
  ) {
    this.#probe = probe
    this.#onChange = onChange
    this.#probeAfter(FIRST_PROBE_AFTER_MS)
  }

  get available(): boolean {
    return this.state === 'up'
  }

  /**
   * Rejects after timeoutMs; the call may still be carried out. A store that was late gets one call at a time: the others wait
   * for its answer, or fail with it, so that a store in trouble has no pile of calls to work off.
   */
  call<Reply>(send: () => Promise<Reply>, timeoutMs: number): Promise<Reply> {
    if (!this.#silence.isOn) return this.#made(send, timeoutMs)
    if (this.#trial !== undefined) {
      const askedMs = performance.now()
      const leftMs = (): number => askedMs + timeoutMs - performance.now()
      return this.#trial.then(() => this.#made(send, Math.max(timeoutMs / 4, leftMs())))
    }
    const trial = this.#made(send, timeoutMs)
    const answered = trial.catch((fault: unknown) => {
      if (isTimeout(fault)) throw fault
    })
    this.#trial = answered
    const over = (): void => void (this.#trial = undefined)
    answered.then(over, over)
    return trial
  }

  #made<Reply>(send: () => Promise<Reply>, timeoutMs: number): Promise<Reply> {
    return bounded(send(), timeoutMs, timedOut).then(
      (reply) => {
        this.#answered()
        return reply
      },
      (fault: unknown) => {
        if (isKeyFault(fault)) this.#answered()
        else if (isTimeout(fault)) {
          if (this.#silence.goesOn(performance.now(), timeoutMs)) this.lost()
        } else {
          this.#silence.end()
          if (++this.#errors >= ERRORS_IN_A_ROW) this.lost()
        }
        throw fault
      },
    )
  }

  #answered(): void {
    this.#errors = 0
    this.#silence.end()
  }

  /** Unavailable at once: the connection was lost, or its calls fail. */
  lost(): void {
    this.#become('down')
  }

  /** Probes now if unavailable, else does nothing. */
  probe(): void {
    if (this.available || this.#isProbing || this.#isClosed) return
    this.#isProbing = true
    const ended = (state: 'up' | 'down'): void => {
      this.#isProbing = false
      this.#become(state)
    }
    void this.#probe().then(
      () => ended('up'),
      () => ended('down'),
    )
  }

  close(): void {
    clearTimeout(this.#nextProbe)
    this.#isClosed = true
    this.state = 'down'
  }

  #probeAfter(delayMs: number): void {
    this.#nextProbe = setTimeout(() => this.probe(), delayMs).unref()
  }

  #become(next: 'up' | 'down'): void {
    if (this.#isClosed) return
    this.#answered()
    const before = this.state
    this.state = next
    clearTimeout(this.#nextProbe)
    if (next === 'down') this.#probeAfter(PROBE_EVERY_MS)
    if (next !== before) this.#onChange(this.available, before === undefined)
  }
}
