/** The clients of a configuration, in the order of the file, read from columns: there may be a million, so each object is made when it is asked for, and none is kept. */
import type { ClientConfig, Config, KeyConfig, OwnedKey, PlanConfig } from '../config.ts'
import { columnsOf, DIGEST_BYTES, type Columns, type Counts } from './columns.ts'
import { byLimit, limitKeys, windows } from '../time.ts'
import { find, findSame, isSame, textOf } from './index-slots.ts'

/** A whole table, as it goes from thread to thread and from process to process. */
export interface ClientTableParts {
  readonly buffer: ArrayBuffer
  readonly counts: Counts
  /** Plan names by their number in the columns. */
  readonly planNames: readonly string[]
  /** One more than the number of the last client of each source: of the configuration itself, then of each file. */
  readonly sourceEnds: readonly number[]
}

/** Comparing so many clients takes some tenths of a millisecond. */
const COMPARED_AT_ONCE = 500

/** One buffer serves all look-ups, as each is over before the next begins. */
const sought = Buffer.alloc(DIGEST_BYTES)

export class ClientTable {
  readonly parts: ClientTableParts
  readonly #columns: Columns
  readonly #plans: readonly (PlanConfig | undefined)[]

  constructor(parts: ClientTableParts, plans: ReadonlyMap<string, PlanConfig>) {
    this.parts = parts
    this.#columns = columnsOf(parts.buffer, parts.counts)
    this.#plans = parts.planNames.map((name) => plans.get(name))
  }

  get size(): number {
    return this.parts.counts.clients
  }

  get keyCount(): number {
    return this.parts.counts.keys
  }

  get(clientId: string): ClientConfig | undefined {
    const client = find(Buffer.from(clientId), this.#columns.clientIds)
    return client === undefined ? undefined : this.#client(client)
  }

  /** Number of the source that has the client, and its line there, or its index in the configuration itself. */
  placeOf(clientId: string): { readonly source: number; readonly line: number } | undefined {
    const client = find(Buffer.from(clientId), this.#columns.clientIds)
    if (client === undefined) return undefined
    const source = this.parts.sourceEnds.findIndex((end) => client < end)
    return { source, line: this.#columns.clientLine[client] ?? 0 }
  }

  /** Name of the client's plan, at less cost than the client. */
  planOf(clientId: string): string | undefined {
    const client = find(Buffer.from(clientId), this.#columns.clientIds)
    return client === undefined ? undefined : this.#planOf(client).name
  }

  /** sha256: digest of the key, in lower-case hex. */
  keyByDigest(sha256: string): OwnedKey | undefined {
    // Text that is not hex is cut short.
    if (sha256.length !== 64 || sought.write(sha256, 'hex') !== DIGEST_BYTES) return undefined
    return this.#owned(find(sought, this.#columns.keyDigests))
  }

  keyById(keyId: string): OwnedKey | undefined {
    return this.#owned(find(Buffer.from(keyId), this.#columns.keyIds))
  }

  /** Number of keys that end from the one moment to before the other, both Unix time in ms. */
  countEnding(fromMs: number, beforeMs: number): number {
    const { keyExpiresAtMs } = this.#columns
    let count = 0
    // An iterator would make an object for each of millions of keys.
    for (let key = 0; key < keyExpiresAtMs.length; key++) {
      const endMs = keyExpiresAtMs[key] ?? 0
      if (endMs >= fromMs && endMs < beforeMs) count++
    }
    return count
  }

  /** The first key that ends after that moment, Unix time in ms. */
  firstEnding(afterMs: number): OwnedKey | undefined {
    const { keyExpiresAtMs } = this.#columns
    let first: number | undefined
    for (let key = 0, firstMs = Infinity; key < keyExpiresAtMs.length; key++) {
      const endMs = keyExpiresAtMs[key] ?? 0
      if (endMs <= afterMs || endMs >= firstMs) continue
      first = key
      firstMs = endMs
    }
    return this.#owned(first)
  }

  countByPlan(): ReadonlyMap<string, number> {
    const { clientPlan } = this.#columns
    const counts = this.parts.planNames.map(() => 0)
    for (let client = 0; client < this.size; client++) {
      const plan = clientPlan[client] ?? 0
      counts[plan] = (counts[plan] ?? 0) + 1
    }
    return new Map(this.parts.planNames.map((name, plan) => [name, counts[plan] ?? 0]))
  }

  [Symbol.iterator](): Iterator<ClientConfig> {
    return this.slice(0, this.size)
  }

  /** Clients from one index to before the other. */
  *slice(from: number, to: number): Generator<ClientConfig> {
    for (let client = from; client < Math.min(to, this.size); client++) yield this.#client(client)
  }

  /** Clients that the other lacks or has differently, be it by their plan; undefined now and then, so that the caller can pause. */
  *notIn(other: ClientTable): Generator<ClientConfig | undefined> {
    const [ids, others] = [this.#columns.clientIds, other.#columns.clientIds]
    for (let client = 0; client < this.size; client++) {
      if (client % COMPARED_AT_ONCE === 0) yield undefined
      // Most clients have the same number as before.
      const isThere = client < other.size && isSame(ids, client, others, client)
      const found = isThere ? client : findSame(ids, client, others)
      if (found === undefined || !this.#equals(client, other, found)) yield this.#client(client)
    }
  }

  /** Whether all but the id is the same. */
  #equals(client: number, other: ClientTable, found: number): boolean {
    const [was, is] = [other.#planOf(found), this.#planOf(client)]
    const isPlan = was.name === is.name && was.concurrent === is.concurrent
    const [from, to] = this.#keysOf(client)
    const [otherFrom, otherTo] = other.#keysOf(found)
    if (!isPlan || to - from !== otherTo - otherFrom) return false
    const [a, b] = [this.#ownLimits(client) ?? is.limits, other.#ownLimits(found) ?? was.limits]
    if (limitKeys.some((key) => a?.[key] !== b?.[key])) return false
    for (let key = 0; key < to - from; key++)
      if (!this.#isSameKey(from + key, other, otherFrom + key)) return false
    return true
  }

  #isSameKey(key: number, other: ClientTable, found: number): boolean {
    const [a, b] = [this.#columns, other.#columns]
    const isEnd = a.keyExpiresAtMs[key] === b.keyExpiresAtMs[found]
    const isDigest = isSame(a.keyDigests, key, b.keyDigests, found)
    return isEnd && isDigest && isSame(a.keyIds, key, b.keyIds, found)
  }

  #owned(key: number | undefined): OwnedKey | undefined {
    if (key === undefined) return undefined
    return { client: this.#client(this.#columns.keyClient[key] ?? 0), key: this.#key(key) }
  }

  #key(key: number): KeyConfig {
    const { keyIds, keyDigests, keyExpiresAtMs } = this.#columns
    const expiresAtMs = keyExpiresAtMs[key] ?? Infinity
    return {
      id: textOf(keyIds, key),
      sha256: textOf(keyDigests, key, 'hex'),
      expiresAtMs: expiresAtMs === Infinity ? undefined : expiresAtMs,
    }
  }

  #client(client: number): ClientConfig {
    const plan = this.#planOf(client)
    const limits = this.#ownLimits(client) ?? plan.limits
    if (limits === undefined) throw new Error('a client without limits passed the checks')
    const [from, to] = this.#keysOf(client)
    return {
      id: textOf(this.#columns.clientIds, client),
      plan: plan.name,
      limits,
      concurrent: plan.concurrent,
      keys: Array.from({ length: to - from }, (_, index) => this.#key(from + index)),
    }
  }

  #planOf(client: number): PlanConfig {
    const plan = this.#plans[this.#columns.clientPlan[client] ?? 0]
    if (plan === undefined) throw new Error('a client without a plan passed the checks')
    return plan
  }

  /** The first key, and the one after the last. */
  #keysOf(client: number): readonly [number, number] {
    const { clientFirstKey } = this.#columns
    const isLast = client + 1 === this.size
    return [clientFirstKey[client] ?? 0, isLast ? this.keyCount : (clientFirstKey[client + 1] ?? 0)]
  }

  /** The client's own limits; undefined: those of its plan apply. */
  #ownLimits(client: number) {
    const { clientLimits, limits } = this.#columns
    const own = clientLimits[client] ?? 0
    if (own === 0) return undefined
    const from = (own - 1) * windows.length
    return byLimit((window) => limits[from + windows.indexOf(window)] ?? 0)
  }
}

/** A configuration as plain data, which can be sent to another process; the bytes of its clients travel separately. */
export interface PlainConfig extends Omit<Config, 'clients'> {
  readonly clients: Omit<ClientTableParts, 'buffer'>
}

export const toPlainConfig = (config: Config): PlainConfig => {
  const { buffer: _, ...clients } = config.clients.parts
  return { ...config, clients }
}

export const fromPlainConfig = (plain: PlainConfig, buffer: ArrayBuffer): Config => ({
  ...plain,
  clients: new ClientTable({ ...plain.clients, buffer }, plain.plans),
})
