/** Collects clients: columns with room for all that a text of that length could hold, filled from the start. */
import type { Limits, WrittenClient } from '../config.ts'
import {
  columnBytes,
  columnNames,
  columnsOf,
  DIGEST_BYTES,
  newBuffer,
  type Columns,
  type Counts,
} from './columns.ts'
import { limitKeys } from '../time.ts'
import { fill, slotsFor } from './index-slots.ts'
import type { ClientTableParts } from './client-table.ts'

/** Shortest text of a client, and of a key. */
const LEAST_CLIENT_BYTES = 14
const LEAST_KEY_BYTES = 76

/** Two clients or two keys with one id, or two keys with one digest. */
export interface Same {
  readonly kind: 'client' | 'key' | 'digest'
  readonly number: number
  readonly earlier: number
}

export class Scratch {
  readonly columns: Columns
  /** The distinct limits that clients have of their own, and their index. */
  readonly #limits = new Map<string, number>()
  readonly #limitValues: number[] = []
  readonly #buffer: ArrayBuffer
  /** Plan names, with their numbers in the columns. */
  readonly #plans: ReadonlyMap<string, number>
  readonly #sourceEnds: number[] = []
  clients = 0
  #keys = 0
  #idBytes = 0

  /** textBytes: length of all texts together. */
  constructor(planNames: readonly string[], textBytes: number) {
    this.#plans = new Map(planNames.map((name, number) => [name, number]))
    const counts: Counts = {
      clients: Math.ceil(textBytes / LEAST_CLIENT_BYTES) + 1,
      keys: Math.ceil(textBytes / LEAST_KEY_BYTES) + 1,
      idBytes: textBytes,
      limits: 0,
      clientSlots: 0,
      keySlots: 0,
    }
    this.#buffer = newBuffer(columnBytes(counts))
    this.columns = columnsOf(this.#buffer, counts)
  }

  /** Adds a valid client; digests may be in either case. line: see clientLine of the columns. */
  add({ id, plan, keys, limits }: WrittenClient, line: number): void {
    const { columns } = this
    const client = this.clients++
    columns.clientIdAt[client] = this.#writeId(id)
    columns.clientIdLength[client] = id.length
    columns.clientFirstKey[client] = this.#keys
    columns.clientPlan[client] = this.#plans.get(plan) ?? 0
    columns.clientLine[client] = line
    columns.clientLimits[client] = limits === undefined ? 0 : this.#ownLimits(limits)
    for (const { id, sha256, expiresAtMs = Infinity } of keys) {
      const key = this.#keys++
      columns.digests.write(sha256, key * DIGEST_BYTES, 'hex')
      columns.keyIdAt[key] = this.#writeId(id)
      columns.keyIdLength[key] = id.length
      columns.keyExpiresAtMs[key] = expiresAtMs
      columns.keyClient[key] = client
    }
  }

  /** Notes that the next client is the first of another source. */
  endSource(): void {
    this.#sourceEnds.push(this.clients)
  }

  /** Returns the table of all clients, and frees the scratch. onSame: called for duplicates. */
  finish(onSame: (same: Same) => void): ClientTableParts {
    const { columns: from } = this
    const [clients, keys, idBytes] = [this.clients, this.#keys, this.#idBytes]
    const counts: Counts = {
      clients,
      keys,
      idBytes,
      limits: this.#limits.size,
      clientSlots: slotsFor(clients),
      keySlots: slotsFor(keys),
    }
    const buffer = newBuffer(columnBytes(counts))
    const to = columnsOf(buffer, counts)
    for (const name of columnNames) to[name].set(from[name].subarray(0, to[name].length))
    to.limits.set(this.#limitValues)
    // The rest needs the table alone, and memory is at its highest here.
    this.#buffer.transfer(0)
    const report = (kind: Same['kind']) => (number: number, earlier: number) =>
      onSame({ kind, number, earlier })
    fill(to.clientIds, clients, report('client'))
    fill(to.keyIds, keys, report('key'))
    fill(to.keyDigests, keys, report('digest'))
    return { buffer, counts, planNames: [...this.#plans.keys()], sourceEnds: this.#sourceEnds }
  }

  /** Returns the index of the limits plus one. */
  #ownLimits(limits: Limits): number {
    const all = limitKeys.map((key) => limits[key])
    const known = this.#limits.get(all.join())
    if (known !== undefined) return known
    this.#limitValues.push(...all)
    this.#limits.set(all.join(), this.#limits.size + 1)
    return this.#limits.size
  }

  #writeId(id: string): number {
    const at = this.#idBytes
    this.#idBytes += this.columns.ids.write(id, at, 'latin1')
    return at
  }
}
