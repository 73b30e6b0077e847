/** Reads the file itself: parses it with positions, puts the environment in, and checks it. src/config/clients/load.ts adds the client files. */
import { readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { ParsedConfig } from './config.ts'
import { placed, readYaml, type Reading } from './document.ts'
import type { Environment } from './environment.ts'
import { resolveFiles, unreadable } from './files.ts'
import { parseConfig } from './parse.ts'
import { ConfigError, formatPath, PROBLEMS_AT_MOST } from './problems.ts'
import type { ConfigProblem, PathProblem } from './problems.ts'
import { isGroup, type Group } from './tree.ts'

export interface ReadConfig {
  readonly problems: readonly ConfigProblem[]
  /** undefined: there are problems. */
  readonly config: ParsedConfig | undefined
  /** The tree with all defaults. */
  readonly tree: Group
  /** Returns the place of a problem of the tree. */
  readonly place: (problem: PathProblem) => ConfigProblem
}

const inWords = ({ path, ...fault }: Reading['faults'][number]): ConfigProblem => ({
  ...fault,
  path: formatPath(path),
})

/** Reads the text of a file; file: its name, for messages. Throws ConfigError where nothing can be read. */
export const readConfig = (text: string, file: string, env: Environment): ReadConfig => {
  const reading = readYaml(text, env)
  const { tree, faults, isHole } = reading
  const problems: ConfigProblem[] = faults.map(inWords)
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
  const place = (problem: PathProblem) => inWords(placed(problem, reading, complete))
  const found = parsed.filter(({ path }) => !isHole(path)).slice(0, PROBLEMS_AT_MOST)
  problems.push(...found.map(place))
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
