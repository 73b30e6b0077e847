/** Files that a configuration names: their paths are relative to the folder of the file that names them. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { problem } from './problems.ts'
import type { Path, PathProblem } from './problems.ts'
import { groupAt, textAt } from './tree.ts'
import type { Group, Tree } from './tree.ts'

const tls: readonly Path[] = [
  ['store', 'redis', 'tls'],
  ['upstream', 'tls'],
]
const paths: readonly Path[] = [
  ['jwt', 'jwksFile'],
  ...['server', 'admin'].flatMap((of) =>
    ['cert', 'key', 'clientCa'].map((key) => [of, 'tls', key]),
  ),
  ...tls.flatMap((group) => ['ca', 'cert', 'key'].map((key) => [...group, key])),
]

export const namedFiles = (tree: Group): { readonly path: Path; readonly file: string }[] =>
  paths.flatMap((path) => {
    const file = textAt(tree, ...path)
    return file ? [{ path, file }] : []
  })

/** Makes the paths absolute, in the tree itself. */
export const resolveFiles = (tree: Group, folder: string): void => {
  for (const { path, file } of namedFiles(tree)) {
    const parent = groupAt(tree, ...path.slice(0, -1)) as Record<string, Tree>
    parent[String(path.at(-1))] = resolve(folder, file)
  }
}

export const unreadable = (error: unknown): string =>
  `cannot be read (${(error as NodeJS.ErrnoException).code}); check its name and permissions`

/** Named files that cannot be read now, reported before they are needed. */
export const unreadableFiles = (tree: Group): PathProblem[] =>
  namedFiles(tree).flatMap(({ path, file }) => {
    try {
      readFileSync(file)
      return []
    } catch (error) {
      return [problem(path, unreadable(error))]
    }
  })
