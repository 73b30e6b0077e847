/** Clients and their keys as columns of numbers and bytes in one buffer: the builder fills them, the table reads them. */

export interface Counts {
  readonly clients: number
  readonly keys: number
  /** Bytes of all ids together. */
  readonly idBytes: number
  /** Pairs of limits that belong to single clients. */
  readonly limits: number
  /** Slots of the indexes: clients by id, keys by id and keys by digest. */
  readonly clientSlots: number
  readonly keySlots: number
}

/** Bytes of a SHA-256 digest. */
export const DIGEST_BYTES = 32

/** The ids of all clients or of all keys, and the index of them. */
export interface Ids {
  readonly ids: Uint8Array
  readonly at: Uint32Array
  readonly length: Uint8Array
  readonly slots: Uint32Array
}

/**
 * Typed views of the buffer, the widest elements first so that each is aligned. All ids are ASCII and stand one after the
 * other in `ids`. An index slot holds the number of a client or key plus one; 0 means free.
 */
export class Columns {
  /** Unix time in ms; Infinity: never. */
  readonly keyExpiresAtMs: Float64Array
  /** perMinute and perDay alternate. */
  readonly limits: Float64Array
  /** Eight words per digest, as many bytes as in `digests`. */
  readonly digestWords: Uint32Array
  readonly keyClient: Uint32Array
  readonly keyIdAt: Uint32Array
  readonly clientIdAt: Uint32Array
  readonly clientFirstKey: Uint32Array
  /** Index of the client's own limits plus one; 0: its plan's limits. */
  readonly clientLimits: Uint32Array
  /** Line in the client's file, from 1. */
  readonly clientLine: Uint32Array
  readonly byClientId: Uint32Array
  readonly byKeyId: Uint32Array
  readonly byDigest: Uint32Array
  readonly clientPlan: Uint16Array
  readonly keyIdLength: Uint8Array
  readonly clientIdLength: Uint8Array
  readonly ids: Buffer
  readonly digests: Buffer
  readonly clientIds: Ids
  readonly keyIds: Ids

  constructor(buffer: ArrayBuffer, counts: Counts) {
    const { clients, keys, idBytes, limits, clientSlots, keySlots } = counts
    let at = 0
    const take = <View>(
      kind: {
        new (buffer: ArrayBuffer, at: number, length: number): View
        BYTES_PER_ELEMENT: number
      },
      length: number,
    ): View => {
      const view = new kind(buffer, at, length)
      at += length * kind.BYTES_PER_ELEMENT
      return view
    }
    this.keyExpiresAtMs = take(Float64Array, keys)
    this.limits = take(Float64Array, 2 * limits)
    this.digests = Buffer.from(buffer, at, keys * DIGEST_BYTES)
    this.digestWords = take(Uint32Array, (keys * DIGEST_BYTES) / 4)
    this.keyClient = take(Uint32Array, keys)
    this.keyIdAt = take(Uint32Array, keys)
    this.clientIdAt = take(Uint32Array, clients)
    this.clientFirstKey = take(Uint32Array, clients)
    this.clientLimits = take(Uint32Array, clients)
    this.clientLine = take(Uint32Array, clients)
    this.byClientId = take(Uint32Array, clientSlots)
    this.byKeyId = take(Uint32Array, keySlots)
    this.byDigest = take(Uint32Array, keySlots)
    this.clientPlan = take(Uint16Array, clients)
    this.keyIdLength = take(Uint8Array, keys)
    this.clientIdLength = take(Uint8Array, clients)
    this.ids = Buffer.from(buffer, at, idBytes)
    const { ids, clientIdAt, clientIdLength, keyIdAt, keyIdLength } = this
    this.clientIds = { ids, at: clientIdAt, length: clientIdLength, slots: this.byClientId }
    this.keyIds = { ids, at: keyIdAt, length: keyIdLength, slots: this.byKeyId }
  }
}

/** Counts the keys that end from the one moment to before the other. */
export const countEnding = (
  { keyExpiresAtMs }: Pick<Columns, 'keyExpiresAtMs'>,
  fromMs: number,
  beforeMs: number,
): number => {
  let count = 0
  // An iterator would make an object for each of millions of keys.
  for (let key = 0; key < keyExpiresAtMs.length; key++) {
    const endMs = keyExpiresAtMs[key] ?? 0
    if (endMs >= fromMs && endMs < beforeMs) count++
  }
  return count
}

/** Size of a buffer for `new Columns`. */
export const columnBytes = (counts: Counts): number =>
  counts.keys * (8 + DIGEST_BYTES + 4 + 4 + 1) +
  counts.limits * 16 +
  counts.clients * (4 * 4 + 2 + 1) +
  counts.clientSlots * 4 +
  counts.keySlots * 2 * 4 +
  counts.idBytes

/** glibc keeps freed blocks below this size, so memory would grow with each reload; larger blocks go back at once, and untouched pages cost nothing. */
const LEAST_LARGE_BYTES = 33 * 2 ** 20

/** isLarge: the buffer belongs to a large file, so its memory must go back to the system. */
export const newBuffer = (bytes: number, isLarge: boolean): ArrayBuffer =>
  new ArrayBuffer(isLarge ? Math.max(bytes, LEAST_LARGE_BYTES) : bytes)
