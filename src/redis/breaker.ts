/** Stops calls to a store that keeps failing, and probes until it is back, so that no request waits for what is known to be away. */

export interface StoreBreaker {
  /** false: do not call. */
  readonly available: boolean
  succeeded(): void
  /** Counts towards the failures in a row that end availability. */
  failed(): void
  /** The connection is gone: unavailable at once. */
  lost(): void
  /** Probes now if unavailable, else does nothing. */
  probe(): void
  close(): void
}

const FAILURES_IN_A_ROW = 3
const PROBE_EVERY_MS = 250
/** A first connection may take so long; one that fails says so by `lost`. */
const FIRST_PROBE_AFTER_MS = 1000
/** A store whose calls fail so soon after a probe succeeded refuses something that the probe does not try. */
const RELAPSE_MS = 1000

/**
 * probe: resolves if the store does its work again; must end by itself.
 * onChange: told on every change, and once when the first state is known.
 * Starts unavailable, until the first probe has succeeded.
 */
export function createStoreBreaker({
  probe,
  onChange,
}: {
  probe: () => Promise<void>
  onChange: (available: boolean) => void
}): StoreBreaker {
  let available = false
  let isKnown = false
  let failures = 0
  let isProbing = false
  let isClosed = false
  let timer: NodeJS.Timeout | undefined
  let availableSinceMs = -Infinity
  let pauseMs = PROBE_EVERY_MS

  const rest = (forMs = pauseMs): void => {
    clearTimeout(timer)
    timer = setTimeout(tryAgain, forMs).unref()
  }
  const become = (next: boolean): void => {
    if (isClosed) return
    failures = 0
    clearTimeout(timer)
    if (next) availableSinceMs = performance.now()
    else rest()
    if (isKnown && next === available) return
    available = next
    isKnown = true
    onChange(next)
  }

  const tryAgain = (): void => {
    if (available || isProbing || isClosed) return
    isProbing = true
    void probe()
      .then(() => become(true))
      .catch(() => become(false))
      .finally(() => {
        isProbing = false
      })
  }

  rest(FIRST_PROBE_AFTER_MS)
  return {
    get available() {
      return available
    },
    succeeded: () => {
      failures = 0
    },
    failed: () => {
      failures += 1
      if (!available || failures < FAILURES_IN_A_ROW) return
      const isRelapse = performance.now() - availableSinceMs < RELAPSE_MS
      pauseMs = isRelapse ? RELAPSE_MS : PROBE_EVERY_MS
      become(false)
    },
    lost: () => {
      pauseMs = PROBE_EVERY_MS
      become(false)
    },
    probe: tryAgain,
    close: () => {
      clearTimeout(timer)
      isClosed = true
      available = false
    },
  }
}
