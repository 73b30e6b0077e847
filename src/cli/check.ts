/** `tollgate check`: whether a configuration would be taken, and if not, everything that is wrong with it; `tollgate diff`: what it would change, and for whom. */
import { plannedInWords } from '../config/changes/radius-in-words.ts'
import type { Config } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import { storeInWords } from '../config/hosts.ts'
import { ConfigError } from '../config/problems.ts'
import { plural } from '../insight/format.js'
import * as tlsFiles from '../server/gateway/tls-files.ts'
import type { Output, Texts } from './edge.ts'
import { OK, REFUSED } from './terminal/fault.ts'
import { loadUsableConfig } from './usable-config.ts'

interface CheckOptions extends Texts<'against'> {
  readonly config: string
  readonly connect?: boolean
}

/** Prints warnings and one line that says ok, or every problem as `FILE:line:col path: fault; remedy`. */
export const checkCommand = async (
  { env, print }: Pick<Output, 'env' | 'print'>,
  { config: file, connect = false, against }: CheckOptions,
): Promise<number> => {
  try {
    const config = await loadUsableConfig(file, env)
    const { revision, clients, routes, warnings, store } = config
    for (const line of warnings) print(line)
    const faults = tlsFaults(config)
    for (const fault of faults) print(fault)
    if (faults.length > 0) return REFUSED
    const counts = `${plural(clients.size, 'client')}, ${plural(routes.length, 'route')}`
    print(`${file}: ok, revision ${revision}, ${counts}, store: ${storeInWords(store)}`)
    const changes = against && (await changesAt(against, env, config))
    if (changes) for (const line of plannedInWords(changes.radius, changes.nearest)) print(line)
    const tried = connect ? await (await import('./check-connections.ts')).tryAll(config) : []
    for (const { what, fault, note } of tried)
      print(`${what}: ${fault ?? `ok${note === undefined ? '' : `, ${note}`}`}`)
    const isRefused = changes && changes.radius.needsRestart.length > 0
    return !isRefused && tried.every(({ fault }) => fault === undefined) ? OK : REFUSED
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const line of error.format()) print(line)
    return REFUSED
  }
}

async function changesAt(admin: string, env: Environment, config: Config) {
  const { changesAgainst } = await import('./operator/admin-keys.ts')
  return changesAgainst({ admin, env, option: '--against' }, config)
}

/** Prints a line per kind of change, or the BlastRadius with --json. */
export const diffCommand = async (
  { env, print }: Pick<Output, 'env' | 'print'>,
  { old, new: file, json }: Record<'old' | 'new', string> & { readonly json?: boolean },
): Promise<void> => {
  const before = await loadUsableConfig(old, env)
  const config = await loadUsableConfig(file, env)
  const { blastRadius } = await import('../config/changes/blast-radius.ts')
  const radius = await blastRadius(before, config)
  if (json) print(JSON.stringify(radius, undefined, 2))
  else for (const line of plannedInWords(radius)) print(line)
}

/** Reads all files for TLS as a gateway does; returns faults with key, file and remedy. */
const tlsFaults = ({ server, admin, upstream, store }: Config): string[] =>
  [
    () => tlsFiles.readServerTls(server.tls),
    () => tlsFiles.readAdminTls(admin),
    () => tlsFiles.readBackendTls(upstream),
    () => tlsFiles.readStoreTls(store),
  ].flatMap((read) => {
    try {
      read()
      return []
    } catch (error) {
      return [(error as Error).message]
    }
  })
