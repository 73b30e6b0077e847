/** The clients of a configuration out of columns: what is asked for is made when it is asked for, and nothing else is kept. */
import type { ClientConfig, Clients, KeyConfig, OwnedKey, PlanConfig } from '../config/config.ts'
import { Columns, DIGEST_BYTES, type Counts } from './columns.ts'
import { findDigest, findId } from './index-slots.ts'

/** All of a ring, as it goes from thread to thread and from process to process. */
export interface RingParts {
  readonly buffer: ArrayBuffer
  readonly counts: Counts
  /** The plans by their number in the columns. */
  readonly planNames: readonly string[]
}

/** A digest as it is looked for. */
const sought = new Uint32Array(DIGEST_BYTES / 4)
const soughtBytes = Buffer.from(sought.buffer)

export class Ring implements Clients {
  readonly parts: RingParts
  readonly #columns: Columns
  readonly #plans: readonly (PlanConfig | undefined)[]

  constructor(parts: RingParts, plans: ReadonlyMap<string, PlanConfig>) {
    this.parts = parts
    this.#columns = new Columns(parts.buffer, parts.counts)
    this.#plans = parts.planNames.map((name) => plans.get(name))
  }

  get size(): number {
    return this.parts.counts.clients
  }

  get keyCount(): number {
    return this.parts.counts.keys
  }

  get(clientId: string): ClientConfig | undefined {
    const client = findId(this.#columns.clientIds, clientId)
    return client === undefined ? undefined : this.#client(client)
  }

  keyByDigest(sha256: string): OwnedKey | undefined {
    // What is no hex is cut short.
    if (sha256.length !== 64 || soughtBytes.write(sha256, 'hex') !== DIGEST_BYTES) return undefined
    return this.#owned(findDigest(this.#columns, sought))
  }

  keyById(keyId: string): OwnedKey | undefined {
    return this.#owned(findId(this.#columns.keyIds, keyId))
  }

  countEnding(fromMs: number, beforeMs: number): number {
    let count = 0
    for (const endMs of this.#columns.keyExpiresAtMs)
      if (endMs >= fromMs && endMs < beforeMs) count++
    return count
  }

  [Symbol.iterator](): Iterator<ClientConfig> {
    return this.slice(0, this.size)
  }

  *slice(from: number, to: number): Generator<ClientConfig> {
    for (let client = from; client < Math.min(to, this.size); client++) yield this.#client(client)
  }

  #owned(key: number | undefined): OwnedKey | undefined {
    if (key === undefined) return undefined
    return { client: this.#client(this.#columns.keyClient[key] ?? 0), key: this.#key(key) }
  }

  #key(key: number): KeyConfig {
    const { ids, keyIdAt, keyIdLength, digests, keyExpiresAtMs } = this.#columns
    const at = keyIdAt[key] ?? 0
    const expiresAtMs = keyExpiresAtMs[key] ?? Infinity
    return {
      id: ids.toString('latin1', at, at + (keyIdLength[key] ?? 0)),
      sha256: digests.toString('hex', key * DIGEST_BYTES, (key + 1) * DIGEST_BYTES),
      expiresAtMs: expiresAtMs === Infinity ? undefined : expiresAtMs,
    }
  }

  #client(client: number): ClientConfig {
    const { ids, clientIdAt, clientIdLength, clientPlan, clientFirstKey } = this.#columns
    const at = clientIdAt[client] ?? 0
    const plan = this.#plans[clientPlan[client] ?? 0]
    const limits = this.#limits(client) ?? plan?.limits
    if (plan === undefined || limits === undefined)
      throw new Error('a client without limits passed the checks')
    const from = clientFirstKey[client] ?? 0
    const to = client + 1 < this.size ? (clientFirstKey[client + 1] ?? 0) : this.keyCount
    return {
      id: ids.toString('latin1', at, at + (clientIdLength[client] ?? 0)),
      plan: plan.name,
      limits,
      concurrent: plan.concurrent,
      keys: Array.from({ length: to - from }, (_, index) => this.#key(from + index)),
    }
  }

  #limits(client: number) {
    const { clientLimits, limits } = this.#columns
    const own = clientLimits[client] ?? 0
    if (own === 0) return undefined
    return { perMinute: limits[2 * own - 2] ?? 0, perDay: limits[2 * own - 1] ?? 0 }
  }
}
