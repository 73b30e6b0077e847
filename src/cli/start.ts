/** `tollgate start`: the gateway and its admin listener. */
import { dirname, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { matching } from '../config/clients/files.ts'
import { namedFiles } from '../config/files.ts'
import { nameOf } from '../config/hosts.ts'
import type { Config, ListenAddress } from '../config/config.ts'
import { ListenError, type Gateway } from '../server/gateway/gateway.ts'
import { OPEN_FILES_AT_LEAST, openFilesAtMost } from '../core/http/connection-room.ts'
import { createLog, type Log } from '../core/record/log.ts'
import type { Edge } from './edge.ts'
import { FileWatch } from './file-watch.ts'
import { loadUsableConfig } from './usable-config.ts'
import { explainPort, Service, type Running } from './service.ts'

const COMPARE_EVERY_MS = 5_000

/** What the files held when a configuration was loaded. */
type Held = WeakMap<Config, Promise<string>>

export const startCommand = (
  edge: Edge,
  { config: file, watch = false }: { readonly config: string; readonly watch?: boolean },
) =>
  new Service(edge, { hangUpEnds: false }).run(async (useLog) => {
    const config = await loadUsableConfig(file, edge.env)
    const log = createLog({ ...config.log, isShared: config.server.workers > 1 })
    useLog(log)
    return (await startGateway(edge, { config, file, watch, log })).running
  })

interface Starting {
  readonly config: Config
  /** The configuration was read from this file, and is read again for a reload. */
  readonly file: string
  /** Whether each change of the files is taken. Default: false. */
  readonly watch?: boolean
  readonly log: Log
}

/** Starts both listeners and prints one line for each, with its real address. */
export async function startGateway(
  { version, entry, env, print }: Edge,
  { config, file, watch = false, log }: Starting,
): Promise<{ running: Running; origin: string; adminOrigin: string }> {
  refuseFewFiles()
  const options = {
    version,
    entry,
    log,
    // It asks the others of its store as commands do, be it asked by them or not.
    ...(config.store.shared !== undefined && {
      adminTls: (await import('./operator/admin-tls.ts')).tlsOf(env),
    }),
    load: async () => note(await loadUsableConfig(file, env, { isServing: true })),
  }
  // A supervisor serves no requests, and one process supervises nobody.
  const create =
    config.server.workers > 1
      ? (await import('../server/workers/supervisor.ts')).createSupervisor
      : (await import('../server/gateway/local-worker.ts')).createGateway
  const gateway = create(config, options)
  const { roll, abandon } = gateway.workers
  const watcher = new FileWatch({
    files: () => filesOf(file, gateway.reloads.config),
    take: async (wish) => (await gateway.reloads.reload(wish)).outcome !== 'refused',
  })
  const held: Held = new WeakMap()
  const note = (loaded: Config): Config => {
    held.set(loaded, watcher.look(filesOf(file, loaded)))
    return loaded
  }
  note(config)
  // What changes once it is said to listen is a change.
  if (watch) await held.get(config)
  const { listen, admin } = await gateway.listen().catch((error: unknown) => {
    throw error instanceof ListenError ? explain(error, config) : error
  })
  const urlOf = (address: ListenAddress, tls?: object): string =>
    `http${tls === undefined ? '' : 's'}://${nameOf(address)}`
  const origin = urlOf(listen, config.server.tls)
  print(`tollgate listening on ${origin}${config.server.basePath || '/'}`)
  const adminOrigin = urlOf(admin, config.admin.tls)
  print(`admin listening on ${adminOrigin}`)
  void (watch ? watcher.start(await held.get(config)) : compare(gateway, watcher, held))
  return {
    running: {
      stop: () => {
        watcher.close()
        return gateway.drain()
      },
      reload: async () => void (await gateway.reloads.reload()),
      ...(roll && abandon && { roll, abandon }),
    },
    origin,
    adminOrigin,
  }
}

/** Throws where the process may open so few files that it would listen and serve nobody. */
function refuseFewFiles(): void {
  const openFiles = openFilesAtMost() ?? Infinity
  if (openFiles >= OPEN_FILES_AT_LEAST) return
  throw new Error(
    `this process may open ${openFiles} files, too few to serve anybody; raise the limit (ulimit -n, LimitNOFILE) to ${OPEN_FILES_AT_LEAST} at least, better to 65536`,
  )
}

/** Notes every few seconds, until the gateway ends, whether the files hold something else than when they were loaded. */
async function compare({ reloads, live }: Gateway, watcher: FileWatch, held: Held): Promise<void> {
  for (; !live.ended.aborted; await sleep(COMPARE_EVERY_MS, undefined, { ref: false })) {
    const { config } = reloads
    const isSame = (await watcher.look()) === (await held.get(config))
    live.changes.outdated = isSame ? undefined : config
  }
}

/** The files of a configuration: itself, and each that it names. */
function filesOf(file: string, { written, clientFiles }: Config): string[] {
  const folder = dirname(file)
  const named = namedFiles(written).map((each) => each.file)
  for (const pattern of clientFiles)
    try {
      named.push(...matching(pattern, folder))
    } catch {
      // Loading the configuration reports it.
    }
  return [...new Set([resolve(file), ...named.map((path) => resolve(folder, path))])]
}

function explain({ listener, cause }: ListenError, config: Config): unknown {
  const at = listener === 'public' ? 'server' : 'admin'
  const setting = `${at}.listen in the config`
  return explainPort(cause, `the ${listener} listener`, config[at].listen, setting)
}
