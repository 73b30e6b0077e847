/** `tollgate check`: tells whether a configuration would be taken, and if not, everything that is wrong with it. */
import { ConfigError } from '../config/problems.ts'
import { storeInWords } from '../config/store-words.ts'
import { OK, REFUSED, type Edge } from './edge.ts'
import { loadUsableConfig } from './load-usable-config.ts'

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

/** Prints warnings and one line that says ok, or every problem as `FILE:line:col path: fault; remedy`. */
export const checkCommand = async (
  { env, print }: Pick<Edge, 'env' | 'print'>,
  { config: file }: { readonly config: string },
): Promise<number> => {
  try {
    const { revision, clients, routes, warnings, store } = await loadUsableConfig(file, env)
    for (const line of warnings) print(line)
    const counts = `${counted(clients.size, 'client')}, ${counted(routes.length, 'route')}`
    print(`${file}: ok, revision ${revision}, ${counts}, store: ${storeInWords(store)}`)
    return OK
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const line of error.format()) print(line)
    return REFUSED
  }
}
