/** Collects clients: columns with room for all that a text of that length could hold, filled from the start. */
import type { WrittenClient } from '../config.ts'
import { columnBytes, Columns, newBuffer, type Counts } from './columns.ts'
import { fillDigests, fillIds, slotsFor } from './index-slots.ts'
import type { ClientTableParts } from './client-table.ts'

/** Shortest text of a client, and of a key. */
const LEAST_CLIENT_BYTES = 14
const LEAST_KEY_BYTES = 76
/** An id that turns out to be too long is still written to its end. */
const LONGEST_ID_BYTES = 256

/** Two clients or two keys with one id, or two keys with one digest. */
export interface Same {
  readonly kind: 'client' | 'key' | 'digest'
  readonly number: number
  readonly earlier: number
}

export type Mark = Pick<Counts, 'clients' | 'keys' | 'idBytes'>

export class Scratch {
  readonly columns: Columns
  /** The distinct limits that clients have of their own, and their index. */
  readonly #limits = new Map<string | number, number>()
  readonly #pairs: number[] = []
  readonly #isLarge: boolean
  readonly #buffer: ArrayBuffer
  /** Number of complete clients. */
  clients = 0
  #keys = 0
  #idBytes = 0
  /** The client that is being read. Readers set these fields, and write to the columns behind the complete clients. */
  readonly draft = {
    keys: 0,
    idBytes: 0,
    idAt: 0,
    idLength: 0,
    plan: 0,
    perMinute: 0,
    perDay: 0,
  }

  /** textBytes: length of all texts together; isLarge: see newBuffer. */
  constructor(textBytes: number, isLarge: boolean) {
    const counts: Counts = {
      clients: Math.ceil(textBytes / LEAST_CLIENT_BYTES) + 1,
      keys: Math.ceil(textBytes / LEAST_KEY_BYTES) + 1,
      idBytes: textBytes + LONGEST_ID_BYTES,
      limits: 0,
      clientSlots: 0,
      keySlots: 0,
    }
    this.#isLarge = isLarge
    this.#buffer = newBuffer(columnBytes(counts), isLarge)
    this.columns = new Columns(this.#buffer, counts)
  }

  /** Returns how far it is filled, to return to later. */
  mark(): Mark {
    return { clients: this.clients, keys: this.#keys, idBytes: this.#idBytes }
  }

  rewind({ clients, keys, idBytes }: Mark): void {
    this.clients = clients
    this.#keys = keys
    this.#idBytes = idBytes
  }

  begin(): void {
    const { draft } = this
    draft.keys = this.#keys
    draft.idBytes = this.#idBytes
    draft.perMinute = 0
  }

  /** Adds a key whose digest is written, and whose id is the last of the ids. */
  addKey(idAt: number, idLength: number, expiresAtMs: number): void {
    const { columns, draft } = this
    const key = draft.keys++
    columns.keyIdAt[key] = idAt
    columns.keyIdLength[key] = idLength
    columns.keyExpiresAtMs[key] = expiresAtMs
    columns.keyClient[key] = this.clients
  }

  take(line: number): void {
    const { columns, draft } = this
    const client = this.clients++
    columns.clientIdAt[client] = draft.idAt
    columns.clientIdLength[client] = draft.idLength
    columns.clientFirstKey[client] = this.#keys
    columns.clientPlan[client] = draft.plan
    columns.clientLine[client] = line
    columns.clientLimits[client] = draft.perMinute === 0 ? 0 : this.#ownLimits()
    this.#keys = draft.keys
    this.#idBytes = draft.idBytes
  }

  /** Adds a valid client. */
  add({ id, keys, limits }: WrittenClient, plan: number, line: number): void {
    this.begin()
    const { columns, draft } = this
    draft.plan = plan
    draft.perMinute = limits?.perMinute ?? 0
    draft.perDay = limits?.perDay ?? 0
    draft.idAt = this.#writeId(id)
    draft.idLength = id.length
    for (const key of keys) {
      columns.digests.write(key.sha256, draft.keys * 32, 'hex')
      this.addKey(this.#writeId(key.id), key.id.length, key.expiresAtMs ?? Infinity)
    }
    this.take(line)
  }

  /** Returns the table of all complete clients; a large scratch is freed. onSame: called for duplicates. */
  finish(planNames: readonly string[], onSame: (same: Same) => void): ClientTableParts {
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
    const buffer = newBuffer(columnBytes(counts), this.#isLarge)
    const to = new Columns(buffer, counts)
    to.limits.set(this.#pairs)
    for (const name of ofKeys) to[name].set(from[name].subarray(0, keys))
    for (const name of ofClients) to[name].set(from[name].subarray(0, clients))
    to.digestWords.set(from.digestWords.subarray(0, keys * 8))
    to.ids.set(from.ids.subarray(0, idBytes))
    // The rest needs the table alone, and memory is at its highest here.
    if (this.#isLarge) this.#buffer.transfer(0)
    const report = (kind: Same['kind']) => (number: number, earlier: number) =>
      onSame({ kind, number, earlier })
    fillIds(to.clientIds, clients, report('client'))
    fillIds(to.keyIds, keys, report('key'))
    fillDigests(to, keys, report('digest'))
    return { buffer, counts, planNames }
  }

  /** Returns the index of the draft's limits plus one. */
  #ownLimits(): number {
    const { perMinute, perDay } = this.draft
    // A number is found much faster than a string, and holds both limits where perDay has up to 22 bits.
    const both = perDay < 2 ** 22 ? perMinute * 2 ** 22 + perDay : `${perMinute}/${perDay}`
    const known = this.#limits.get(both)
    if (known !== undefined) return known
    this.#pairs.push(perMinute, perDay)
    this.#limits.set(both, this.#limits.size + 1)
    return this.#limits.size
  }

  #writeId(id: string): number {
    const { columns, draft } = this
    const at = draft.idBytes
    draft.idBytes += columns.ids.write(id, at, 'latin1')
    return at
  }
}

const ofKeys = ['keyExpiresAtMs', 'keyClient', 'keyIdAt', 'keyIdLength'] as const
const ofClients = [
  'clientIdAt',
  'clientFirstKey',
  'clientLimits',
  'clientLine',
  'clientPlan',
  'clientIdLength',
] as const
