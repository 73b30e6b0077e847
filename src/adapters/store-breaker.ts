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

  const become = (next: boolean): void => {
    if (isClosed) return
    failures = 0
    if (next) {
      clearInterval(timer)
      timer = undefined
    } else timer ??= setInterval(tryAgain, PROBE_EVERY_MS).unref()
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

  timer = setInterval(tryAgain, PROBE_EVERY_MS).unref()
  return {
    get available() {
      return available
    },
    succeeded: () => {
      failures = 0
    },
    failed: () => {
      failures += 1
      if (available && failures >= FAILURES_IN_A_ROW) become(false)
    },
    lost: () => become(false),
    probe: tryAgain,
    close: () => {
      clearInterval(timer)
      isClosed = true
      available = false
    },
  }
}
