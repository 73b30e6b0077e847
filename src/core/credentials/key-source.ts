/** Keeps the keys of a token issuer: those of a file, or the last good set from an address, fetched in the background. */
import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import type { JwtConfig } from '../../config/config.ts'
import { parseKeySet, type KeySet } from './key-set.ts'
import { AddressLines } from './work-gate.ts'

/** The last fetch of the key set failed. */
export interface KeySetFault {
  /** For the log. */
  readonly cause: string
  /** An older set is there and stays in use. */
  readonly hasKeys: boolean
}

export interface KeyObserver {
  /** Called after each fetch of the key set; undefined: it went well. */
  keySetFetched(fault: KeySetFault | undefined): void
}

const defaultTiming = {
  /** Time for a whole fetch; requests may be waiting for it. */
  timeoutMs: 900,
  refreshMs: 300_000,
  /** Wait after a failure; it doubles with each further one, up to a minute. */
  retryMs: 1_000,
  /**
   * Least time from the beginning of a fetch to that of the next one caused by a token. Anyone can make up a key id, so this bounds
   * what a flood of them costs the issuer; a new key is found within this time and one fetch, whoever else asks.
   */
  renewMs: 1_000,
}
type JwksTiming = Readonly<typeof defaultTiming>

const maxRetryMs = 60_000
const maxBodyBytes = 262_144
const maxWaiting = 256

export class KeySource<Observer extends KeyObserver = KeyObserver> {
  protected readonly config: JwtConfig
  protected readonly observer: Observer
  /** Resolves when the first load has ended, well or not; without a set no token can be checked. */
  readonly ready: Promise<void>
  /** The last good set; undefined until the first has come. */
  current: KeySet | undefined
  /** Why the latest fetch failed; undefined: it did not. */
  fault: KeySetFault | undefined
  readonly #timing: JwksTiming
  readonly #closing = new AbortController()
  /** Text from which `current` was made. */
  #text: string | undefined
  #failures = 0
  #fetching: Promise<void> | undefined
  #beganMs = -Infinity
  /** Answers of those who wait for a fetch to end; isGood: it went well. */
  readonly #waiting = new AddressLines<(isGood: boolean) => void>(maxWaiting)
  #timer: NodeJS.Timeout | undefined
  #isRetired = false

  /** Throws an Error that names the fault when jwksFile cannot be used. */
  constructor(config: JwtConfig, observer: Observer, timing?: Partial<JwksTiming>) {
    this.config = config
    this.observer = observer
    this.#timing = { ...defaultTiming, ...timing }
    const { jwksFile } = config
    if (jwksFile !== undefined)
      this.current = withText(jwksFile, (text) => parseKeySet((this.#text = text)))
    this.ready = this.#refresh()
  }

  /** Whether one for this configuration would be the same. Throws an Error that names the fault when jwksFile cannot be read. */
  isFor(config: JwtConfig): boolean {
    const { jwksFile } = config
    if (!isDeepStrictEqual(config, this.config)) return false
    return jwksFile === undefined || withText(jwksFile, (text) => text === this.#text)
  }

  /** Resolves when the fetch under way has ended, well or badly; the next one comes by itself. */
  #refresh(): Promise<void> {
    const { jwksUri } = this.config
    return jwksUri === undefined ? Promise.resolve() : (this.#fetching ??= this.#fetch(jwksUri))
  }

  /**
   * Asks for a newer set because a token names a key that `current` lacks. Resolves when a fetch has ended: true if it went well
   * and began after this call, so that the issuer does not have what `current` still lacks. Resolves with false at once where too many
   * wait or the issuer fails.
   */
  renew(address: string): Promise<boolean> {
    if (this.config.jwksUri === undefined) return Promise.resolve(true)
    const isUnderWay = this.#fetching !== undefined
    if (this.#isRetired || (this.#failures > 0 && !isUnderWay)) return Promise.resolve(false)
    if (!isUnderWay) this.#fetchIn(this.#beganMs + this.#timing.renewMs - performance.now())
    return new Promise((resolve) => {
      const answer = (isGood: boolean): void => resolve(isGood && !isUnderWay)
      this.#waiting.add(address, answer)?.(false)
    })
  }

  /** Prevents further fetches; one under way goes on, as requests may wait for it. */
  retire(): void {
    this.#isRetired = true
    clearTimeout(this.#timer)
    if (this.#fetching === undefined) this.#answer(false)
  }

  /** Prevents further fetches and ends one under way. */
  close(): void {
    this.retire()
    this.#closing.abort()
  }

  async #fetch(uri: string): Promise<void> {
    clearTimeout(this.#timer)
    this.#beganMs = performance.now()
    const { timeoutMs, refreshMs, retryMs } = this.#timing
    const { signal } = this.#closing
    try {
      const text = await download(uri, timeoutMs, signal)
      // A text that is no set throws, and never replaces a good one.
      if (text !== this.#text) this.current = parseKeySet(text, this.current)
      this.#text = text
      this.#failures = 0
      this.fault = undefined
    } catch (error) {
      this.#failures++
      this.fault = { cause: describe(error), hasKeys: this.current !== undefined }
    }
    if (!signal.aborted) this.observer.keySetFetched(this.fault)
    this.#fetching = undefined
    this.#answer(this.fault === undefined)
    if (this.#isRetired) return
    const backOffMs = Math.min(retryMs * 2 ** (this.#failures - 1), maxRetryMs)
    this.#fetchIn(this.fault === undefined ? refreshMs : backOffMs)
  }

  #fetchIn(waitMs: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#refresh(), Math.max(waitMs, 0)).unref()
  }

  #answer(isGood: boolean): void {
    for (let one = this.#waiting.next(); one !== undefined; one = this.#waiting.next()) one(isGood)
  }
}

/** GET with a bound on time and size, following no redirect: the address is the trust anchor of every token. */
async function download(uri: string, timeoutMs: number, closing: AbortSignal): Promise<string> {
  const response = await fetch(uri, {
    redirect: 'error',
    headers: { accept: 'application/jwk-set+json, application/json' },
    signal: AbortSignal.any([closing, AbortSignal.timeout(timeoutMs)]),
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
}

/** fetch says only "fetch failed" and hides the reason in the cause. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return 'no answer in time'
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}

function withText<Result>(path: string, use: (text: string) => Result): Result {
  try {
    return use(readFileSync(path, 'utf8'))
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`jwt.jwksFile ${path}: ${reason}`, { cause })
  }
}
