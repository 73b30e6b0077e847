/** Keeps the last good copy of a JSON Web Key Set from an HTTP address, fetched in the background. */

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

export class JwksSource<T> {
  /** The last good set; undefined until the first has come. */
  current: T | undefined
  readonly #options: JwksOptions<T>
  readonly #timing: JwksTiming
  readonly #closing = new AbortController()
  /** Which `current` was made of. */
  #body: string | undefined
  #failures = 0
  #fetching: Promise<void> | undefined
  #waiters = 0
  #renewedAtMs = -Infinity
  #timer: NodeJS.Timeout | undefined
  #isRetired = false

  /** Nothing is fetched before the first refresh(). */
  constructor(options: JwksOptions<T>) {
    this.#options = options
    this.#timing = { ...defaultTiming, ...options.timing }
  }

  /** Resolves when the fetch under way has ended, well or badly; the next one comes by itself. */
  refresh(): Promise<void> {
    clearTimeout(this.#timer)
    this.#fetching ??= this.#load().then(() => {
      this.#fetching = undefined
      if (this.#isRetired) return
      const { refreshMs, retryMs } = this.#timing
      const backOffMs = Math.min(retryMs * 2 ** (this.#failures - 1), maxRetryMs)
      const waitMs = this.#failures === 0 ? refreshMs : backOffMs
      this.#timer = setTimeout(() => void this.refresh(), waitMs).unref()
    })
    return this.#fetching
  }

  /**
   * Asks for a newer set because a token names a key that `current` lacks. Resolves as refresh() does.
   * recent: the last one is not long ago. full: too many wait for one.
   */
  renew(nowMs: number): Promise<void> | 'recent' | 'full' {
    if (this.#closing.signal.aborted || this.#waiters >= maxWaiters) return 'full'
    if (!this.#fetching) {
      // A clock that was set back must not close this door for long.
      const waitedMs = nowMs - this.#renewedAtMs
      if (waitedMs >= 0 && waitedMs < this.#timing.renewMs) return 'recent'
      this.#renewedAtMs = nowMs
    }
    this.#waiters++
    return this.refresh().finally(() => this.#waiters--)
  }

  /** The fetch under way is the last: requests may wait for it. */
  retire(): void {
    this.#isRetired = true
    clearTimeout(this.#timer)
  }

  close(): void {
    this.retire()
    this.#closing.abort()
  }

  async #load(): Promise<void> {
    const { uri, parse, onChange, onFetched } = this.#options
    const { signal } = this.#closing
    try {
      const body = await download(uri, this.#timing.timeoutMs, signal)
      if (body !== this.#body) {
        this.current = parse(body)
        this.#body = body
        onChange()
      }
      this.#failures = 0
      onFetched(undefined)
    } catch (error) {
      if (signal.aborted) return
      this.#failures++
      onFetched(describe(error))
    }
  }
}

/** GET with a bound on time and size, following no redirect: the address is the trust anchor of every token. */
async function download(uri: string, timeoutMs: number, closing: AbortSignal): Promise<string> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(new Error('no answer in time')), timeoutMs)
  try {
    const response = await fetch(uri, {
      redirect: 'error',
      headers: { accept: 'application/jwk-set+json, application/json' },
      signal: AbortSignal.any([closing, late.signal]),
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
  }
}

/** fetch hides what happened ("fetch failed") in the cause. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}
