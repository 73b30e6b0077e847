/** Clients and their keys as columns of numbers and bytes in one buffer: the builder fills them, the table reads them. */
import { windows } from '../time.ts'
import type { Indexed } from './index-slots.ts'

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
export const columnNames = Object.keys(layout) as (keyof Layout)[]

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
