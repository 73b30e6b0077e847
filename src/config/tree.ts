/** The file as text, lists and groups: what the YAML reader hands to the schema. Every scalar is the exact text written. */
import { formatPath, type Path } from './problems.ts'
import { duration, type Leaf } from './scalars.ts'

export interface Group {
  readonly [key: string]: Tree
}

export type Tree = string | readonly Tree[] | Group

export const isList = (tree: Tree | undefined): tree is readonly Tree[] => Array.isArray(tree)

export const isGroup = (tree: Tree | undefined): tree is Group =>
  typeof tree === 'object' && !isList(tree)

/** Value at the path; undefined where there is none. Own keys only: `constructor` finds nothing. */
export const valueAt = (tree: Tree | undefined, ...path: Path): Tree | undefined => {
  let value = tree
  for (const step of path) {
    if (typeof step === 'number') value = isList(value) ? value[step] : undefined
    else value = isGroup(value) && Object.hasOwn(value, step) ? value[step] : undefined
  }
  return value
}

export const has = (tree: Tree | undefined, ...path: Path): boolean =>
  valueAt(tree, ...path) !== undefined

/** The text at the path, undefined where there is none or something else. */
export const textAt = (tree: Tree | undefined, ...path: Path): string | undefined => {
  const value = valueAt(tree, ...path)
  return typeof value === 'string' ? value : undefined
}

/** The list at the path, empty where there is none or something else. */
export const listAt = (tree: Tree | undefined, ...path: Path): readonly Tree[] => {
  const value = valueAt(tree, ...path)
  return isList(value) ? value : []
}

/** The group at the path, empty where there is none or something else. */
export const groupAt = (tree: Tree | undefined, ...path: Path): Group => {
  const value = valueAt(tree, ...path)
  return isGroup(value) ? value : {}
}

/** Reads a value; undefined where it is absent or refused, as the schema reports. */
export const readAt = <T>(tree: Tree, path: Path, leaf: Leaf<T>): T | undefined =>
  leaf.safeParse(textAt(tree, ...path)).data

/** Each path with a mark that an earlier one has, and the earliest in words; paths without a mark are left alone. */
export const repeated = (
  paths: readonly Path[],
  markAt: (path: Path) => string | undefined,
): (readonly [path: Path, earliest: string])[] =>
  [...Map.groupBy(paths, markAt)].flatMap(([mark, [earliest = [], ...later]]) =>
    mark === undefined ? [] : later.map((path) => [path, formatPath(earliest)] as const),
  )

/** The path of each item of the list at the path. */
export const itemsAt = (tree: Group, ...path: Path): Path[] =>
  listAt(tree, ...path).map((_, index) => [...path, index])

export const below = (paths: readonly Path[], key: string): Path[] =>
  paths.map((path) => [...path, key])

/** Whether the value at the first path is above the one at the second. */
export const isAbove = (tree: Tree, leaf: Leaf<number>, one: Path, other: Path): boolean =>
  (readAt(tree, one, leaf) ?? -Infinity) > (readAt(tree, other, leaf) ?? Infinity)

/** A duration without the bounds of its key. */
const unboundedMs = duration('0ms', '9007199254740991ms')

/** Whether the duration at the first path is above the one at the second. */
export const isLonger = (tree: Tree, one: Path, other: Path): boolean =>
  isAbove(tree, unboundedMs, one, other)
