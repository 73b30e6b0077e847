/** Keeps the last good copy of a JSON Web Key Set from an HTTP address, fetched in the background. */
import { AddressLines } from './address-lines.ts'

export interface JwksOptions<T> {
  readonly uri: string
  /** Turns the body into a set, or throws; a set that throws never replaces a good one. */
  readonly parse: (body: string) => T
  /** Called with each set that differs from the last one; before is undefined for the first. */
  readonly onChange: (next: T, before: T | undefined) => void
  /** Called after each fetch; `fault`, for the log, says why it failed. */
  readonly onFetched: (fault: string | undefined) => void
  readonly timing?: Partial<JwksTiming> | undefined
}

export interface JwksTiming {
  /** Time for a whole fetch; requests may be waiting for it. */
  readonly timeoutMs: number
  readonly refreshMs: number
  /** Wait after a failure; it doubles with each further one, up to a minute. */
  readonly retryMs: number
  /**
   * Least time from the beginning of a fetch to that of the next one caused by a token. Anyone can make up a key id, so this bounds
   * what a flood of them costs the issuer; a new key is found within this time and one fetch, whoever else asks.
   */
  readonly renewMs: number
}

const defaultTiming: JwksTiming = {
  timeoutMs: 900,
  refreshMs: 300_000,
  retryMs: 1_000,
  renewMs: 1_000,
}
const maxRetryMs = 60_000
const maxBodyBytes = 262_144
const maxWaiting = 256

interface Waiting {
  /** How many fetches had begun when it asked. */
  readonly fetches: number
  resolve(isRenewed: boolean): void
}

export class JwksSource<T> {
  /** The last good set; undefined until the first has come. */
  current: T | undefined
  readonly #options: JwksOptions<T>
  readonly #timing: JwksTiming
  readonly #closing = new AbortController()
  /** Text from which `current` was made. */
  #body: string | undefined
  #failures = 0
  #fetching: Promise<void> | undefined
  #fetches = 0
  #beganMs = -Infinity
  readonly #waiting = new AddressLines<Waiting>(maxWaiting)
  #timer: NodeJS.Timeout | undefined
  #isRetired = false

  /** Nothing is fetched before the first refresh(). */
  constructor(options: JwksOptions<T>) {
    this.#options = options
    this.#timing = { ...defaultTiming, ...options.timing }
  }

  /** Resolves when the fetch under way has ended, well or badly; the next one comes by itself. */
  refresh(): Promise<void> {
    return (this.#fetching ??= this.#fetch())
  }

  /**
   * Asks for a newer set because a token names a key that `current` lacks. Resolves when a fetch has ended: true if it went well
   * and began after this call, so that the issuer does not have what `current` still lacks. Resolves with false at once where too many
   * wait or the issuer fails.
   */
  renew(address: string): Promise<boolean> {
    const isFailing = this.#failures > 0 && this.#fetching === undefined
    if (this.#isRetired || isFailing) return Promise.resolve(false)
    return new Promise((resolve) => {
      this.#waiting.add(address, { fetches: this.#fetches, resolve })?.resolve(false)
      if (this.#fetching !== undefined) return
      this.#fetchIn(this.#beganMs + this.#timing.renewMs - performance.now())
    })
  }

  /** Prevents further fetches. */
  retire(): void {
    this.#isRetired = true
    clearTimeout(this.#timer)
    if (this.#fetching === undefined) this.#answer(false)
  }

  close(): void {
    this.retire()
    this.#closing.abort()
  }

  async #fetch(): Promise<void> {
    clearTimeout(this.#timer)
    this.#fetches++
    this.#beganMs = performance.now()
    const isGood = await this.#load()
    this.#fetching = undefined
    this.#answer(isGood)
    if (this.#isRetired) return
    const { refreshMs, retryMs } = this.#timing
    const backOffMs = Math.min(retryMs * 2 ** (this.#failures - 1), maxRetryMs)
    this.#fetchIn(this.#failures === 0 ? refreshMs : backOffMs)
  }

  #fetchIn(waitMs: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.refresh(), Math.max(waitMs, 0)).unref()
  }

  #answer(isGood: boolean): void {
    for (let one = this.#waiting.next(); one !== undefined; one = this.#waiting.next())
      one.resolve(isGood && one.fetches < this.#fetches)
  }

  async #load(): Promise<boolean> {
    const { uri, parse, onChange, onFetched } = this.#options
    const { signal } = this.#closing
    try {
      const body = await download(uri, this.#timing.timeoutMs, signal)
      if (body !== this.#body) {
        const before = this.current
        this.current = parse(body)
        this.#body = body
        onChange(this.current, before)
      }
      this.#failures = 0
      onFetched(undefined)
      return true
    } catch (error) {
      if (signal.aborted) return false
      this.#failures++
      onFetched(describe(error))
      return false
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

/** fetch says only "fetch failed" and hides the reason in the cause. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}
