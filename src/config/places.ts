/** Reads values of the tree, for checks that need more than one. */
import type { Path, PathProblem } from './problems.ts'
import { formatPath, problem } from './problems.ts'
import type { Leaf } from './scalars.ts'
import { listAt, textAt } from './tree.ts'
import type { Group, Tree } from './tree.ts'

/** Reads a value; undefined where it is absent or refused, as the schema reports. */
export const readAt = <T>(tree: Tree, path: Path, leaf: Leaf<T>): T | undefined =>
  leaf.safeParse(textAt(tree, ...path)).data

/** Reports every path whose mark an earlier one already has; paths without a mark are left alone. */
export const repeated = (
  paths: readonly Path[],
  markAt: (path: Path) => string | undefined,
  message: (earlier: string) => string,
): PathProblem[] => {
  const seen = new Map<string, Path>()
  return paths.flatMap((path) => {
    const mark = markAt(path)
    if (mark === undefined) return []
    const earlier = seen.get(mark)
    if (earlier !== undefined) return [problem(path, message(formatPath(earlier)))]
    seen.set(mark, path)
    return []
  })
}

/** The path of each item of the list at the path. */
export const itemsAt = (tree: Group, ...path: Path): Path[] =>
  listAt(tree, ...path).map((_, index) => [...path, index])

export const below = (paths: readonly Path[], key: string): Path[] =>
  paths.map((path) => [...path, key])
