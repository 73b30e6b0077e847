/** `tollgate check`: tells whether a configuration would be taken, and if not, everything that is wrong with it. */
import type { Config } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import { ConfigError } from '../config/problems.ts'
import { storeInWords } from '../config/store-words.ts'
import { loadUsableConfig } from './load-usable-config.ts'

interface CheckOptions {
  readonly file: string
  readonly env: Environment
  /** Takes one line, without its line break. */
  readonly print: (line: string) => void
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

/** The configuration, or every line of complaint about the file. */
const load = (file: string, env: Environment): Config | readonly string[] => {
  try {
    return loadUsableConfig(file, env)
  } catch (error) {
    if (error instanceof ConfigError) return error.format()
    throw error
  }
}

/** Exit code: 0, warnings and one line that says so, or 2 and every problem as `FILE:line:col path: fault; remedy`. */
export const checkCommand = ({ file, env, print }: CheckOptions): number => {
  const result = load(file, env)
  if (!('revision' in result)) {
    for (const line of result) print(line)
    return 2
  }
  const { revision, clients, routes, warnings, store } = result
  for (const line of warnings) print(line)
  const counts = `${counted(clients.length, 'client')}, ${counted(routes.length, 'route')}`
  print(`${file}: ok, revision ${revision}, ${counts}, store: ${storeInWords(store)}`)
  return 0
}
