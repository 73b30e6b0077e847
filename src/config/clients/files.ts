/** The files that `clientFiles` names; a "*" in the last step of a pattern stands for any text. */
import { readdirSync, statSync } from 'node:fs'
import { basename, dirname, extname, isAbsolute, join, resolve } from 'node:path'
import { unreadable } from '../files.ts'
import { problem, type Path, type PathProblem } from '../problems.ts'
import { listAt, type Group } from '../tree.ts'
import { clientFileEndings, readClients, type ClientSource } from './entries.ts'

export interface FoundFile extends ClientSource {
  /** Path as the pattern writes it, relative to the folder of the configuration. */
  readonly relative: string
  readonly path: string
  /** Differs where the file was replaced or changed. */
  readonly stamp: string
}

export type FoundFiles = ReturnType<typeof findClientFiles>

/** Returns each file once, in the order of their names; warnings: patterns that match no file, which may be intended. file: path of the configuration. */
export const findClientFiles = (tree: Group, file: string) => {
  const folder = dirname(file)
  const found = new Map<string, FoundFile>()
  const warnings: PathProblem[] = []
  const problems = listAt(tree, 'clientFiles').flatMap((pattern, index) => {
    const path: Path = ['clientFiles', index]
    // The schema has already reported values that are not strings.
    if (typeof pattern !== 'string') return []
    const isKnown = clientFileEndings.includes(extname(pattern))
    if (!isKnown) return [problem(path, 'is neither YAML nor JSONL; name it .yaml, .yml or .jsonl')]
    if (dirname(pattern).includes('*'))
      return [problem(path, 'has a "*" in a folder; write it in the last step only')]
    try {
      const names = matching(pattern, folder)
      if (names.length === 0) warnings.push(problem(path, 'matches no file; check its name'))
      for (const relative of names) {
        const one = stamped(relative, folder)
        if (one === undefined)
          return [problem(path, `names ${relative}, which is no file; name files`)]
        found.set(one.path, one)
      }
      return []
    } catch (error) {
      return [problem(path, unreadable(error))]
    }
  })
  const byName = (a: FoundFile, b: FoundFile) => (a.relative < b.relative ? -1 : 1)
  return { files: [...found.values()].sort(byName), problems, warnings }
}

/** Names that a pattern matches, relative to the folder. Throws where the folder cannot be read. */
export const matching = (pattern: string, folder: string): string[] => {
  const last = basename(pattern)
  if (!last.includes('*')) return [pattern]
  const escaped = last.split('*').map((text) => text.replaceAll(/\W/g, '\\$&'))
  const shape = new RegExp(`^${escaped.join('.*')}$`, 's')
  return readdirSync(resolve(folder, dirname(pattern)))
    .filter((name) => !name.startsWith('.') && shape.test(name))
    .map((name) => join(dirname(pattern), name))
}

const stamped = (relative: string, folder: string): FoundFile | undefined => {
  const path = resolve(folder, relative)
  const stat = statSync(path, { bigint: true })
  if (!stat.isFile()) return undefined
  const { ino, size, mtimeNs, ctimeNs } = stat
  const stamp = [relative, ino, size, mtimeNs, ctimeNs].join()
  const name = isAbsolute(relative) ? relative : join(folder, relative)
  return { relative, name, path, bytes: Number(size), stamp, read: readClients(path) }
}
