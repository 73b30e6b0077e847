/** Hash indexes with open addressing and linear probing. Ids and digests are ranges of bytes, which are compared whole. */

/** Ids or digests by the number of their client or key. The columns are read here, not by functions: filling an index is a good part of a load. */
interface Entries {
  readonly bytes: Buffer
  /** Where each begins, and its length; undefined: all have `width` bytes, one after the other. */
  readonly ids: { readonly at: Uint32Array; readonly length: Uint8Array } | undefined
  readonly width: number
}

/** A slot holds the number of an entry plus one; 0 means free. */
export interface Indexed extends Entries {
  readonly slots: Uint32Array
}

/** Number of slots for the entries: six in ten are taken, so a search looks at few. */
export const slotsFor = (entries: number): number => Math.ceil(entries / 0.6) + 1

/** FNV-1a with the last step of MurmurHash3, without which texts that differ in their last letter get similar high bits. 32 bits. */
const hashBytes = (bytes: Uint8Array, at: number, length: number): number => {
  let hash = 0x811c9dc5
  for (let i = at; i < at + length; i++) hash = Math.imul(hash ^ (bytes[i] ?? 0), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

export const hashText = (text: string): number => {
  const bytes = Buffer.from(text)
  return hashBytes(bytes, 0, bytes.length)
}

const startOf = ({ ids, width }: Entries, number: number): number =>
  ids === undefined ? number * width : (ids.at[number] ?? 0)

const lengthOf = ({ ids, width }: Entries, number: number): number =>
  ids === undefined ? width : (ids.length[number] ?? 0)

export const textOf = (of: Entries, number: number, encoding: 'latin1' | 'hex' = 'latin1') => {
  const start = startOf(of, number)
  return of.bytes.toString(encoding, start, start + lengthOf(of, number))
}

/** Whether two entries are equal, in the same table or in two. */
export const isSame = (of: Entries, one: number, others: Entries, other: number): boolean => {
  const length = lengthOf(of, one)
  if (lengthOf(others, other) !== length) return false
  const a = startOf(of, one)
  const b = startOf(others, other)
  // Many ids begin alike, so the comparison starts at the end.
  for (let i = length - 1; i >= 0; i--) if (of.bytes[a + i] !== others.bytes[b + i]) return false
  return true
}

/** Slot of the equal entry among the others, or the free slot where it belongs. */
const slotOf = (of: Entries, one: number, others: Indexed): number => {
  const { slots, ids } = others
  // The first bytes of a digest tell it from others.
  const hash = hashBytes(of.bytes, startOf(of, one), ids === undefined ? 4 : lengthOf(of, one))
  // Scaling the hash spares rounding the number of slots up to a power of two.
  for (let slot = Math.floor((hash * slots.length) / 2 ** 32); ; slot++) {
    if (slot === slots.length) slot = 0
    const entry = slots[slot] ?? 0
    if (entry === 0 || isSame(of, one, others, entry - 1)) return slot
  }
}

/** Number of the entry among the others that equals this one. */
export const findSame = (of: Entries, one: number, others: Indexed): number | undefined => {
  const entry = others.slots[slotOf(of, one, others)] ?? 0
  return entry === 0 ? undefined : entry - 1
}

export const find = (bytes: Buffer, among: Indexed): number | undefined =>
  findSame({ bytes, ids: undefined, width: bytes.length }, 0, among)

/** onSame: called for an entry that equals an earlier one. */
export const fill = (
  of: Indexed,
  count: number,
  onSame: (number: number, earlier: number) => void,
): void => {
  for (let number = 0; number < count; number++) {
    const slot = slotOf(of, number, of)
    const entry = of.slots[slot] ?? 0
    if (entry === 0) of.slots[slot] = number + 1
    else onSame(number, entry - 1)
  }
}
