/** Groups and lists of the schema, with the words for what is none. */
import { z } from 'zod'
import { faultOr } from './scalars.ts'

/** A group of known keys. Where others are written, the message lists the known ones: schema.ts makes the sentence, per key. */
export const group = <Shape extends z.core.$ZodLooseShape>(shape: Shape) => {
  const keys = Object.keys(shape).join(', ')
  const { error } = faultOr(`is not a group of keys; write KEY: VALUE lines, the keys are ${keys}`)
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? keys : error(issue)),
  })
}

export const list = <Item extends z.ZodType>(
  item: Item,
  fault = 'is not a list; write [A, B], or lines that start with "- "',
) => z.array(item, faultOr(fault))

/** A list with at least one item. */
export const filledList = <Item extends z.ZodType>(item: Item) =>
  list(item).min(1, { error: 'is empty; write at least one' })

type WithUnit<T, Key, Unit extends string> = {
  [K in keyof T as K extends Key ? `${K & string}${Unit}` : K]: T[K]
}

const withUnit =
  <Unit extends string>(unit: Unit) =>
  <Key extends string>(...keys: readonly Key[]) =>
  <T extends { readonly [K in Key]?: number | undefined }>(given: T): WithUnit<T, Key, Unit> =>
    Object.fromEntries(
      Object.entries(given).map(([key, value]) => [
        keys.some((each) => each === key) ? `${key}${unit}` : key,
        value,
      ]),
    ) as WithUnit<T, Key, Unit>

/** Renames durations and timestamps so that the name has the unit: `idle` to `idleMs`. */
export const inMs = withUnit('Ms')

/** Renames sizes as inMs does: `bufferedBody` to `bufferedBodyBytes`. */
export const inBytes = withUnit('Bytes')
