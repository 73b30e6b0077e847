/** Groups and lists of the schema, with the words for what is none, and the defaults that they hold. */
import { z } from 'zod'
import { faultOr } from './scalars.ts'
import { isGroup, isList, type Tree } from './tree.ts'

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

export const filledList = <Item extends z.ZodType>(item: Item) =>
  list(item).min(1, { error: 'is empty; write at least one' })

/**
 * The tree with every absent key that has a default filled in, in the spelling of the file and the order of the schema. Groups are completed key by key,
 * lists item by item where they are written; any other default is taken whole.
 */
export const completed = (tree: Tree | undefined, schema: z.core.$ZodType): Tree | undefined => {
  const { def } = (schema as z.core.$ZodTypes)._zod
  if (def.type === 'prefault') return completed(tree ?? (def.defaultValue as Tree), def.innerType)
  if (def.type === 'optional') return completed(tree, def.innerType)
  if (def.type === 'pipe') return completed(tree, def.in)
  if (def.type === 'array' && isList(tree))
    return tree.map((item) => completed(item, def.element) ?? item)
  if (def.type !== 'object' || !isGroup(tree)) return tree
  const whole: Record<string, Tree> = {}
  for (const key of new Set([...Object.keys(def.shape), ...Object.keys(tree)])) {
    const inner = def.shape[key]
    const value = inner === undefined ? tree[key] : completed(tree[key], inner)
    if (value !== undefined) whole[key] = value
  }
  return whole
}

type Renamed<T, Key, Suffix extends string> = {
  [K in keyof T as K extends Key ? `${K & string}${Suffix}` : K]: T[K]
}

const renamed =
  <Suffix extends string>(suffix: Suffix) =>
  <Key extends string>(...keys: readonly Key[]) =>
  <T extends { readonly [K in Key]?: unknown }>(given: T): Renamed<T, Key, Suffix> =>
    Object.fromEntries(
      Object.entries(given).map(([key, value]) => [
        keys.some((each) => each === key) ? `${key}${suffix}` : key,
        value,
      ]),
    ) as Renamed<T, Key, Suffix>

/** Renames durations and timestamps so that the name has the unit: `idle` to `idleMs`. */
export const inMs = renamed('Ms')

/** Renames sizes as inMs does: `bufferedBody` to `bufferedBodyBytes`. */
export const inBytes = renamed('Bytes')

/** Renames what names a file: `cert` to `certFile`. */
export const asFiles = renamed('File')
