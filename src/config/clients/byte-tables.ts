/** Bytes that ids and digests may contain, according to the shapes of src/config/scalars.ts. */
import { isReservedName } from '../scalars.ts'

const tableOf = (shape: RegExp): Uint8Array =>
  Uint8Array.from({ length: 256 }, (_, byte) => Number(shape.test(String.fromCharCode(byte))))

export const isIdByte = tableOf(/[A-Za-z0-9_.:@+-]/)
export const isFirstIdByte = tableOf(/[A-Za-z0-9]/)
export const NO_DIGIT = 255
export const hexValue = Uint8Array.from({ length: 256 }, (_, byte) => {
  const digit = String.fromCharCode(byte)
  return /[0-9A-Fa-f]/.test(digit) ? Number.parseInt(digit, 16) : NO_DIGIT
})

const markOf = (first: number, last: number, length: number): number =>
  (first << 16) | (last << 8) | length
const reserved = new Set(
  Object.getOwnPropertyNames(Object.prototype)
    .filter(isReservedName)
    .map((name) => markOf(name.charCodeAt(0), name.charCodeAt(name.length - 1), name.length)),
)

/** Compares the first byte, the last byte and the length only, as reserved names are rare. */
export const mayBeReserved = (first: number, last: number, length: number): boolean =>
  reserved.has(markOf(first, last, length))
