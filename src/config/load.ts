/** The file itself: read, taken apart with positions, environment put in, then parsed. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Config } from './config.ts'
import { readYaml } from './document.ts'
import type { Environment } from './environment.ts'
import { resolveFiles, unreadable, unreadableFiles } from './files.ts'
import { parseConfig } from './parse.ts'
import { ConfigError, formatPath, formatProblem, inOrder, showValue } from './problems.ts'
import type { ConfigProblem, PathProblem } from './problems.ts'
import { isGroup, textAt } from './tree.ts'
import type { Group } from './tree.ts'
import { warningsOf } from './warnings.ts'

interface Source {
  /** Name of the file, for messages. */
  readonly file: string
  readonly env: Environment
  /** Default: now. */
  readonly nowMs?: number
  /** Tells of files that the tree names. Default: none is looked at. */
  readonly checkFiles?: (tree: Group) => readonly PathProblem[]
}

/** Parses the text of a file. Throws ConfigError with every problem. */
export const parseConfigText = (text: string, source: Source): Config => {
  const { file, env, nowMs = Date.now(), checkFiles = () => [] } = source
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
  const revision = createHash('sha256').update(text).digest('hex').slice(0, 12)
  const parsed = parseConfig(tree, revision)
  const place = (problem: PathProblem): ConfigProblem => {
    const { path } = problem
    const value = isForeign(path) ? undefined : textAt(parsed.complete, ...path)
    const { message } = showValue(problem, value)
    return { ...locate(problem), path: formatPath(path), message }
  }
  const found = [...parsed.problems, ...checkFiles(tree)]
  problems.push(...found.filter(({ path }) => !isHole(path)).map(place))
  if (problems.length > 0 || parsed.config === undefined) throw new ConfigError(file, problems)
  const warnings = inOrder(warningsOf(parsed.config, nowMs).map(place)).map((warning) =>
    formatProblem(file, { ...warning, message: `warning: ${warning.message}` }),
  )
  return { ...parsed.config, warnings }
}

export const readText = (file: string): string => {
  const refuse = (message: string): ConfigError =>
    new ConfigError(file, [{ line: 1, column: 1, path: formatPath([]), message }])
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (error) {
    throw refuse(unreadable(error))
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw refuse('is not UTF-8 text; save it in that encoding')
  }
}

/** Reads and parses a file. Throws ConfigError with every problem: an unreadable file, or one that it names, among them. */
export const loadConfig = (file: string, env: Environment): Config =>
  parseConfigText(readText(file), { file, env, checkFiles: unreadableFiles })
