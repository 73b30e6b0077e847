/** The text of a configuration, and the files that it names: their paths are relative to the folder of the file that names them. */
import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { ConfigError, ofWholeFile, problem, type Path, type PathProblem } from './problems.ts'
import { groupAt, textAt, type Group, type Tree } from './tree.ts'

const tlsPaths = (at: Path, ...keys: string[]): Path[] => keys.map((key) => [...at, 'tls', key])

/** Settings that may name a file. TLS to a store stands in the setting of that store, whichever it is. */
const pathsIn = (tree: Group): Path[] => [
  ['jwt', 'jwksFile'],
  ...['server', 'admin'].flatMap((of) => tlsPaths([of], 'cert', 'key', 'clientCa')),
  ...[...Object.keys(groupAt(tree, 'store')).map((key) => ['store', key]), ['upstream']].flatMap(
    (of) => tlsPaths(of, 'ca', 'cert', 'key'),
  ),
]

export const namedFiles = (tree: Group): { readonly path: Path; readonly file: string }[] =>
  pathsIn(tree).flatMap((path) => {
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

export const notText = 'is not UTF-8 text; save it in that encoding'

/** Reading a longer file would take several hundred times as much memory. */
const FILE_BYTES_AT_MOST = 4 * 2 ** 20

/** The text of a configuration itself. Throws ConfigError. */
export const readConfigText = (file: string): string => readText(file, FILE_BYTES_AT_MOST)

/** Throws ConfigError. */
export const readText = (file: string, bytesAtMost = Infinity): string => {
  const refuse = (message: string) => new ConfigError(file, [ofWholeFile(message)])
  let bytes: Buffer
  try {
    if (statSync(file).size > bytesAtMost)
      throw refuse('has more than 4MiB; write its clients into files that clientFiles names')
    bytes = readFileSync(file)
  } catch (error) {
    throw error instanceof ConfigError ? error : refuse(unreadable(error))
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw refuse(notText)
  }
}
