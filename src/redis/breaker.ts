/** Stops calls to a store that keeps failing, and probes until it is back, so that no request waits for what is known to be away. */

const FAILURES_IN_A_ROW = 3
const PROBE_EVERY_MS = 250
/** A first connection may take so long; one that fails says so by `lost`. */
const FIRST_PROBE_AFTER_MS = 1000
/** A store whose calls fail so soon after a probe succeeded refuses something that the probe does not try. */
const RELAPSE_MS = 1000

/** Unavailable until the first probe has succeeded. */
export class StoreBreaker {
  readonly #probe: () => Promise<void>
  readonly #onChange: (available: boolean, isFirst: boolean) => void
  /** undefined: no probe has ended yet; written by #become and close alone. */
  state: 'up' | 'down' | undefined
  #availableSinceMs = -Infinity
  /** Calls that failed since the last that did not. */
  #failures = 0
  #isProbing = false
  #isClosed = false
  /** Of the next probe. */
  #timer: NodeJS.Timeout | undefined
  /** Between probes; written by failed and lost. */
  #pauseMs = PROBE_EVERY_MS

  /**
   * probe: resolves if the store does its work again; must end by itself.
   * onChange: told on every change, and once when the first state is known.
   */
  constructor(
    probe: () => Promise<void>,
    onChange: (available: boolean, isFirst: boolean) => void,
  ) {
    this.#probe = probe
    this.#onChange = onChange
    this.#rest(FIRST_PROBE_AFTER_MS)
  }

  /** false: do not call. */
  get available(): boolean {
    return this.state === 'up'
  }

  succeeded(): void {
    this.#failures = 0
  }

  /** Counts towards the failures in a row that end availability. */
  failed(): void {
    this.#failures += 1
    if (!this.available || this.#failures < FAILURES_IN_A_ROW) return
    const isRelapse = performance.now() - this.#availableSinceMs < RELAPSE_MS
    this.#pauseMs = isRelapse ? RELAPSE_MS : PROBE_EVERY_MS
    this.#become('down')
  }

  /** The connection is gone: unavailable at once. */
  lost(): void {
    this.#pauseMs = PROBE_EVERY_MS
    this.#become('down')
  }

  /** Probes now if unavailable, else does nothing. */
  probe(): void {
    if (this.available || this.#isProbing || this.#isClosed) return
    this.#isProbing = true
    void this.#probe()
      .then(() => this.#become('up'))
      .catch(() => this.#become('down'))
      .finally(() => {
        this.#isProbing = false
      })
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#isClosed = true
    this.state = 'down'
  }

  #rest(forMs: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.probe(), forMs).unref()
  }

  #become(next: 'up' | 'down'): void {
    if (this.#isClosed) return
    this.#failures = 0
    const before = this.state
    this.state = next
    if (next === 'down') this.#rest(this.#pauseMs)
    else {
      clearTimeout(this.#timer)
      this.#availableSinceMs = performance.now()
    }
    if (next !== before) this.#onChange(this.available, before === undefined)
  }
}
