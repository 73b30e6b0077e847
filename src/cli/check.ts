/** `tollgate check`: prints whether a configuration would be taken, and if not, everything that is wrong with it. */
import { ConfigError } from '../config/problems.ts'
import { storeInWords } from '../config/hosts.ts'
import { OK, REFUSED, type Edge } from './edge.ts'
import { radiusAgainst } from './operator/admin-keys.ts'
import { inWords } from '../config/changes/radius-in-words.ts'
import { loadUsableConfig } from './load-usable-config.ts'
import { readTls, tryConnections } from './try-connections.ts'

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

interface CheckOptions {
  readonly config: string
  /** Also tries the connections that it leads to, and prints a line for each. */
  readonly connect?: boolean
  /** Address of a running gateway: prints what would change there. */
  readonly against?: string
}

/** Prints warnings and one line that says ok, or every problem as `FILE:line:col path: fault; remedy`. */
export const checkCommand = async (
  { env, print }: Pick<Edge, 'env' | 'print'>,
  { config: file, connect = false, against }: CheckOptions,
): Promise<number> => {
  try {
    const config = await loadUsableConfig(file, env)
    const { revision, clients, routes, warnings, store } = config
    for (const line of warnings) print(line)
    const tls = readTls(config)
    for (const fault of tls.faults) print(fault)
    if (tls.faults.length > 0) return REFUSED
    const counts = `${counted(clients.size, 'client')}, ${counted(routes.length, 'route')}`
    print(`${file}: ok, revision ${revision}, ${counts}, store: ${storeInWords(store)}`)
    const gateway = against && { admin: against, env, option: '--against' as const }
    const radius = gateway && (await radiusAgainst(gateway, config))
    for (const line of radius ? inWords(radius) : []) print(line)
    const tried = connect ? await tryConnections(config, tls) : []
    for (const { what, fault, note } of tried)
      print(`${what}: ${fault ?? `ok${note === undefined ? '' : `, ${note}`}`}`)
    const isRefused = radius && radius.needsRestart.length > 0
    return !isRefused && tried.every(({ fault }) => fault === undefined) ? OK : REFUSED
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const line of error.format()) print(line)
    return REFUSED
  }
}
