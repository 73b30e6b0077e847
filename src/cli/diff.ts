/** `tollgate diff`: what a new configuration would change, and for whom. */
import { ConfigError } from '../config/problems.ts'
import { blastRadius } from '../config/changes/blast-radius.ts'
import { OK, REFUSED, type Edge } from './edge.ts'
import { loadUsableConfig } from './load-usable-config.ts'
import { inWords } from '../config/changes/radius-in-words.ts'

/** Prints a line per kind of change, or the BlastRadius with --json. */
export const diffCommand = async (
  { env, print }: Pick<Edge, 'env' | 'print'>,
  { files, json }: { readonly files: readonly [string, string]; readonly json: boolean },
): Promise<number> => {
  try {
    const [current, next] = await Promise.all(files.map((file) => loadUsableConfig(file, env)))
    if (current === undefined || next === undefined) throw new Error('two files were loaded')
    const radius = blastRadius(current, next)
    for (const line of json ? [JSON.stringify(radius, undefined, 2)] : inWords(radius)) print(line)
    return OK
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const line of error.format()) print(line)
    return REFUSED
  }
}
