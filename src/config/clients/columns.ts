/** Clients and their keys as columns of numbers and bytes in one buffer: the builder fills them, by way of a scratch, and the table reads them. */
import type { Limits, WrittenClient } from '../config.ts'
import { limitKeys, windows } from '../time.ts'
import type { ClientTableParts } from './client-table.ts'
import { fill, slotsFor, type Indexed } from './index-slots.ts'

export interface Counts {
  readonly clients: number
  readonly keys: number
  /** Bytes of all ids together. */
  readonly idBytes: number
  /** Sets of limits that belong to single clients. */
  readonly limits: number
  /** Slots of the indexes: clients by id, keys by id and keys by digest. */
  readonly clientSlots: number
  readonly keySlots: number
}

export const DIGEST_BYTES = 32

/**
 * The columns in the order of the buffer, the widest elements first so that each is aligned: kind of the elements, what there is
 * a row for, elements a row. All ids are ASCII and stand one after the other in `ids`.
 */
const layout = {
  /** Unix time in ms; Infinity: never. */
  keyExpiresAtMs: [Float64Array, 'keys', 1],
  /** Limits of all windows, in their order. */
  limits: [Float64Array, 'limits', windows.length],
  keyClient: [Uint32Array, 'keys', 1],
  keyIdAt: [Uint32Array, 'keys', 1],
  clientIdAt: [Uint32Array, 'clients', 1],
  clientFirstKey: [Uint32Array, 'clients', 1],
  /** Index of the client's own limits plus one; 0: its plan's limits. */
  clientLimits: [Uint32Array, 'clients', 1],
  /** Line in the client's file, from 1. */
  clientLine: [Uint32Array, 'clients', 1],
  byClientId: [Uint32Array, 'clientSlots', 1],
  byKeyId: [Uint32Array, 'keySlots', 1],
  byDigest: [Uint32Array, 'keySlots', 1],
  clientPlan: [Uint16Array, 'clients', 1],
  digestBytes: [Uint8Array, 'keys', DIGEST_BYTES],
  keyIdLength: [Uint8Array, 'keys', 1],
  clientIdLength: [Uint8Array, 'clients', 1],
  idBytes: [Uint8Array, 'idBytes', 1],
} as const satisfies Record<string, readonly [unknown, keyof Counts, number]>

type Layout = typeof layout
const columnNames = Object.keys(layout) as (keyof Layout)[]

export type Columns = ReturnType<typeof columnsOf>

export const columnsOf = (buffer: ArrayBuffer, counts: Counts) => {
  let at = 0
  const views = Object.fromEntries(
    Object.entries(layout).map(([name, [kind, of, each]]) => {
      const view = new kind(buffer, at, counts[of] * each)
      at += view.byteLength
      return [name, view]
    }),
  ) as { readonly [Name in keyof Layout]: InstanceType<Layout[Name][0]> }
  const asBuffer = (view: Uint8Array): Buffer =>
    Buffer.from(buffer, view.byteOffset, view.byteLength)
  const [ids, digests] = [asBuffer(views.idBytes), asBuffer(views.digestBytes)]
  const indexed = (bytes: Buffer, slots: Uint32Array, ids: Indexed['ids']): Indexed => ({
    bytes,
    ids,
    width: DIGEST_BYTES,
    slots,
  })
  const { clientIdAt, clientIdLength, keyIdAt, keyIdLength } = views
  return {
    ...views,
    ids,
    digests,
    clientIds: indexed(ids, views.byClientId, { at: clientIdAt, length: clientIdLength }),
    keyIds: indexed(ids, views.byKeyId, { at: keyIdAt, length: keyIdLength }),
    keyDigests: indexed(digests, views.byDigest, undefined),
  }
}

/** Size of a buffer for columnsOf. */
export const columnBytes = (counts: Counts): number =>
  Object.values(layout).reduce(
    (sum, [kind, of, each]) => sum + counts[of] * each * kind.BYTES_PER_ELEMENT,
    0,
  )

/** glibc keeps freed blocks below the second size, so memory would grow with each reload; larger blocks go back at once, and untouched pages cost nothing. Small tables may stay small. */
const [SMALL_BYTES, LEAST_LARGE_BYTES] = [2 ** 20, 33 * 2 ** 20]

export const newBuffer = (bytes: number): ArrayBuffer =>
  new ArrayBuffer(bytes > SMALL_BYTES ? Math.max(bytes, LEAST_LARGE_BYTES) : bytes)

/** Shortest text of a client, and of a key. */
const LEAST_CLIENT_BYTES = 14
const LEAST_KEY_BYTES = 76

/** Two clients or two keys with one id, or two keys with one digest. */
export interface Same {
  readonly kind: 'client' | 'key' | 'digest'
  readonly number: number
  readonly earlier: number
}

/** Collects clients: columns with room for all that a text of that length could hold, filled from the start. */
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
