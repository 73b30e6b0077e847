/** Keeps the last good copy of a JSON Web Key Set from an HTTP address, fetched in the background. */

export interface JwksSource<T> {
  /** The last good set; undefined until the first has come. */
  current(): T | undefined
  /**
   * Asks for a newer set because a token names a key that `current` lacks. Resolves when the fetch under way has ended,
   * well or badly. recent: the last one is not long ago. full: too many wait for one.
   */
  renew(nowMs: number): Promise<void> | 'recent' | 'full'
  /** Resolves when the first fetch has ended, well or badly. */
  ready(): Promise<void>
  close(): void
}

export interface JwksOptions<T> {
  readonly uri: string
  /** Turns the body into a set, or throws; a set that throws never replaces a good one. */
  readonly parse: (body: string) => T
  /** A set that differs from the last one has come. */
  readonly onChange: () => void
  /** A fetch has ended; `fault`, for the log, says why it failed. */
  readonly onFetched: (fault: string | undefined) => void
  readonly timing?: Partial<JwksTiming> | undefined
}

export interface JwksTiming {
  /** Time for a whole fetch; requests may be waiting for it. */
  readonly timeoutMs: number
  readonly refreshMs: number
  /** After a failure; doubles with each further one, up to a minute. */
  readonly retryMs: number
  /** Least time between two fetches that tokens cause: anyone can make up a key id. */
  readonly renewMs: number
}

const defaultTiming: JwksTiming = {
  timeoutMs: 900,
  refreshMs: 300_000,
  retryMs: 1_000,
  renewMs: 30_000,
}
const maxRetryMs = 60_000
const maxBodyBytes = 262_144
const maxWaiters = 64

/** Starts fetching at once. Never throws: as long as no set has come, `current` answers undefined. */
export function createJwksSource<T>(options: JwksOptions<T>): JwksSource<T> {
  const timing = { ...defaultTiming, ...options.timing }
  const closing = new AbortController()
  let set: T | undefined
  let body: string | undefined
  let failures = 0
  let fetching: Promise<void> | undefined
  let waiters = 0
  let renewedAtMs = -Infinity
  let timer: NodeJS.Timeout | undefined

  const load = async (): Promise<void> => {
    try {
      const next = await download(options.uri, timing.timeoutMs, closing.signal)
      if (next !== body) {
        set = options.parse(next)
        body = next
        options.onChange()
      }
      failures = 0
      options.onFetched(undefined)
    } catch (error) {
      if (closing.signal.aborted) return
      failures++
      options.onFetched(describe(error))
    }
  }
  const refresh = (): Promise<void> => {
    clearTimeout(timer)
    fetching ??= load().then(() => {
      fetching = undefined
      if (closing.signal.aborted) return
      const backOffMs = Math.min(timing.retryMs * 2 ** (failures - 1), maxRetryMs)
      timer = setTimeout(() => void refresh(), failures === 0 ? timing.refreshMs : backOffMs)
      timer.unref()
    })
    return fetching
  }
  const first = refresh()

  return {
    current: () => set,
    renew: (nowMs) => {
      if (closing.signal.aborted || waiters >= maxWaiters) return 'full'
      if (!fetching) {
        // A clock that was set back must not close this door for long.
        const waitedMs = nowMs - renewedAtMs
        if (waitedMs >= 0 && waitedMs < timing.renewMs) return 'recent'
        renewedAtMs = nowMs
      }
      waiters++
      return refresh().finally(() => waiters--)
    },
    ready: () => first,
    close: () => {
      clearTimeout(timer)
      closing.abort()
    },
  }
}

/** GET with a bound on time and size, following no redirect: the address is the trust anchor of every token. */
async function download(uri: string, timeoutMs: number, closing: AbortSignal): Promise<string> {
  const controller = new AbortController()
  const abort = (): void => controller.abort()
  const timer = setTimeout(() => controller.abort(new Error('no answer in time')), timeoutMs)
  closing.addEventListener('abort', abort, { once: true })
  try {
    const response = await fetch(uri, {
      redirect: 'error',
      headers: { accept: 'application/jwk-set+json, application/json' },
      signal: controller.signal,
    })
    if (response.status !== 200 || !response.body) {
      await response.body?.cancel()
      throw new Error(`status ${response.status}`)
    }
    const chunks: Uint8Array[] = []
    let bytes = 0
    for await (const chunk of response.body) {
      bytes += chunk.length
      if (bytes > maxBodyBytes) throw new Error(`more than ${maxBodyBytes} bytes`)
      chunks.push(chunk)
    }
    return Buffer.concat(chunks).toString('utf8')
  } finally {
    clearTimeout(timer)
    closing.removeEventListener('abort', abort)
  }
}

/** fetch hides what happened ("fetch failed") in the cause. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}
