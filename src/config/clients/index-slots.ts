/** Hash indexes with open addressing and linear probing. Ids and digests are compared whole. */
import type { Columns, Ids } from './columns.ts'

/** Number of slots for the entries: six in ten are taken, so a search looks at few. */
export const slotsFor = (entries: number): number => Math.ceil(entries / 0.6) + 1

/** Scales a hash of 32 bits to a slot, so that no length has to be a power of two. */
const slotOf = (hash: number, slots: number): number => Math.floor((hash * slots) / 2 ** 32)

/** FNV-1a with the last step of MurmurHash3, without which texts that differ in their last letter get similar high bits. */
const seed = 0x811c9dc5
const step = (hash: number, byte: number): number => Math.imul(hash ^ byte, 0x01000193)
const finish = (hash: number): number => {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

const hashBytes = (bytes: Uint8Array, at: number, length: number): number => {
  let hash = seed
  for (let i = at; i < at + length; i++) hash = step(hash, bytes[i] ?? 0)
  return finish(hash)
}

/** 32 bits. */
export const hashText = (text: string): number => {
  let hash = seed
  for (let i = 0; i < text.length; i++) hash = step(hash, text.charCodeAt(i))
  return finish(hash)
}

const isText = ({ ids, at, length }: Ids, number: number, text: string): boolean => {
  if (length[number] !== text.length) return false
  const from = at[number] ?? 0
  for (let i = 0; i < text.length; i++) if (ids[from + i] !== text.charCodeAt(i)) return false
  return true
}

/** Whether two ids are equal, in the same table or in two. */
export const isSameId = (of: Ids, one: number, others: Ids, other: number): boolean => {
  const bytes = of.length[one] ?? 0
  if (others.length[other] !== bytes) return false
  const a = of.at[one] ?? 0
  const b = others.at[other] ?? 0
  // Many ids begin alike, so the comparison starts at the end.
  for (let i = bytes - 1; i >= 0; i--) if (of.ids[a + i] !== others.ids[b + i]) return false
  return true
}

const slotOfId = ({ ids, at, length, slots }: Ids, number: number, among = slots.length): number =>
  slotOf(hashBytes(ids, at[number] ?? 0, length[number] ?? 0), among)

/** Number of the entry among the others that has the same id. */
export const findSameId = (of: Ids, one: number, others: Ids): number | undefined => {
  const { slots } = others
  for (let slot = slotOfId(of, one, slots.length); ; slot++) {
    if (slot === slots.length) slot = 0
    const entry = slots[slot] ?? 0
    if (entry === 0) return undefined
    if (isSameId(of, one, others, entry - 1)) return entry - 1
  }
}

export const findId = (of: Ids, text: string): number | undefined => {
  const { slots } = of
  for (let slot = slotOf(hashText(text), slots.length); ; slot++) {
    if (slot === slots.length) slot = 0
    const entry = slots[slot] ?? 0
    if (entry === 0) return undefined
    if (isText(of, entry - 1, text)) return entry - 1
  }
}

/** Slot of the digest whose eight words begin at `from`, or the free slot where it belongs. */
const digestSlot = ({ byDigest, digestWords }: Columns, words: Uint32Array, from: number) => {
  for (let slot = slotOf(words[from] ?? 0, byDigest.length); ; slot++) {
    if (slot === byDigest.length) slot = 0
    const entry = byDigest[slot] ?? 0
    if (entry === 0) return slot
    const at = (entry - 1) * 8
    let i = 0
    while (i < 8 && digestWords[at + i] === words[from + i]) i++
    if (i === 8) return slot
  }
}

/** words: eight, in the byte order of the digest columns. */
export const findDigest = (columns: Columns, words: Uint32Array): number | undefined => {
  const entry = columns.byDigest[digestSlot(columns, words, 0)] ?? 0
  return entry === 0 ? undefined : entry - 1
}

/** Called for an entry that equals an earlier one. */
export type OnSame = (number: number, earlier: number) => void

export const fillIds = (of: Ids, count: number, onSame: OnSame): void => {
  const { slots } = of
  for (let number = 0; number < count; number++) {
    let slot = slotOfId(of, number)
    for (; ; slot++) {
      if (slot === slots.length) slot = 0
      const entry = slots[slot] ?? 0
      if (entry === 0) slots[slot] = number + 1
      else if (isSameId(of, number, of, entry - 1)) onSame(number, entry - 1)
      else continue
      break
    }
  }
}

export const fillDigests = (columns: Columns, count: number, onSame: OnSame): void => {
  const { byDigest, digestWords } = columns
  for (let number = 0; number < count; number++) {
    const slot = digestSlot(columns, digestWords, number * 8)
    const entry = byDigest[slot] ?? 0
    if (entry === 0) byDigest[slot] = number + 1
    else onSame(number, entry - 1)
  }
}
