/** The file as text, lists and groups: what the YAML reader hands to the schema. Every scalar is the exact text written. */
import type { Path } from './problems.ts'

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

/** An empty group without a prototype, so that no key of a file can reach one. */
export const emptyGroup = (): Record<string, Tree> => Object.create(null) as Record<string, Tree>
