/** Reads the file itself: parses it with positions, puts the environment in, and checks it. src/config/clients/load.ts adds the client files. */
import { readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { ParsedConfig } from './config.ts'
import { readYaml } from './document.ts'
import type { Environment } from './environment.ts'
import { resolveFiles, unreadable } from './files.ts'
import { parseConfig } from './parse.ts'
import { ConfigError, formatPath, PROBLEMS_AT_MOST, showValue } from './problems.ts'
import type { ConfigProblem, PathProblem } from './problems.ts'
import { isGroup, textAt } from './tree.ts'
import type { Group } from './tree.ts'

interface Source {
  /** Name of the file, for messages. */
  readonly file: string
  readonly env: Environment
  /** Checks the files that the tree names. Default: none is looked at. */
  readonly checkFiles?: (tree: Group) => readonly PathProblem[]
}

export interface ReadConfig {
  readonly problems: readonly ConfigProblem[]
  /** undefined: there are problems. */
  readonly config: ParsedConfig | undefined
  /** The tree with all defaults. */
  readonly tree: Group
  /** Returns the place of a problem of the tree. */
  readonly place: (problem: PathProblem) => ConfigProblem
}

/** Reads the text of a file. Throws ConfigError where nothing can be read. */
export const readConfig = (
  text: string,
  { file, env, checkFiles = () => [] }: Source,
): ReadConfig => {
  const { tree, faults, locate, isHole, isForeign } = readYaml(text, env)
  const problems: ConfigProblem[] = faults.map(({ path, ...fault }) => ({
    ...fault,
    path: formatPath(path),
  }))
  if (tree === undefined || !isGroup(tree)) {
    const isEmpty = tree === '' && problems.length === 0
    const fault = isEmpty
      ? 'is empty; write at least one key, such as clients:'
      : 'is not a group of keys; write KEY: VALUE lines'
    if (isEmpty || (tree !== undefined && tree !== ''))
      problems.push({ line: 1, column: 1, path: formatPath([]), message: fault })
    throw new ConfigError(file, problems)
  }
  resolveFiles(tree, dirname(file))
  const { complete, config, problems: parsed } = parseConfig(tree)
  const place = (problem: PathProblem): ConfigProblem => {
    const { path } = problem
    const value = isForeign(path) ? undefined : textAt(complete, ...path)
    const { message } = showValue(problem, value)
    return { ...locate(problem), path: formatPath(path), message }
  }
  const found = [...parsed, ...checkFiles(tree)].filter(({ path }) => !isHole(path))
  for (const each of found.slice(0, PROBLEMS_AT_MOST)) problems.push(place(each))
  return { problems, config: problems.length > 0 ? undefined : config, tree: complete, place }
}

/** Reading a longer file would take several hundred times as much memory. */
const FILE_BYTES_AT_MOST = 4 * 2 ** 20

/** The text of a configuration itself. Throws ConfigError. */
export const readConfigText = (file: string): string => readText(file, FILE_BYTES_AT_MOST)

/** Throws ConfigError. */
export const readText = (file: string, bytesAtMost = Infinity): string => {
  const refuse = (message: string): ConfigError =>
    new ConfigError(file, [{ line: 1, column: 1, path: formatPath([]), message }])
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
    throw refuse('is not UTF-8 text; save it in that encoding')
  }
}
