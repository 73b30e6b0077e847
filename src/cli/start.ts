/** `tollgate start`: the gateway and its admin listener. */
import { readSettingLocationsAside } from '../config/clients/aside.ts'
import { dirname, resolve } from 'node:path'
import { matching } from '../config/clients/files.ts'
import { namedFiles } from '../config/files.ts'
import { hostForUrl } from '../config/hosts.ts'
import type { Config, ListenAddress } from '../config/config.ts'
import { ListenError, type Gateway } from '../server/gateway/gateway.ts'
import { createGateway } from '../server/gateway/local-worker.ts'
import { OPEN_FILES_AT_LEAST, openFilesAtMost } from '../core/http/connection-limits.ts'
import { createLog, type Log } from '../core/record/log.ts'
import type { Edge } from './edge.ts'
import { FileWatch } from './file-watch.ts'
import { loadUsableConfig } from './usable-config.ts'
import { explainPort, Service, type Running } from './service.ts'
import { createSupervisor } from '../server/workers/supervisor.ts'

export const startCommand = (
  edge: Edge,
  { config: file, watch = false }: { readonly config: string; readonly watch?: boolean },
) =>
  new Service(edge, { hangUpEnds: false }).run(async (useLog) => {
    const config = await loadUsableConfig(file, edge.env)
    const log = createLog({ ...config.log, isShared: config.server.workers > 1 })
    useLog(log)
    return (await startGateway({ config, file, watch, log, edge })).running
  })

/** Starts both listeners and prints one line for each, with its real address. */
export async function startGateway({
  config,
  file,
  watch = false,
  log,
  edge,
}: {
  readonly config: Config
  /** The configuration was read from this file, and is read again for a reload. */
  readonly file: string
  /** Whether each change of the files is taken. Default: false. */
  readonly watch?: boolean
  readonly log: Log
  readonly edge: Edge
}): Promise<{ running: Running; origin: string; adminOrigin: string }> {
  refuseFewFiles()
  const { version, entry, env, print } = edge
  const options = {
    version,
    entry,
    log,
    load: () => loadUsableConfig(file, env, { isServing: true }),
    settingLocations: readSettingLocationsAside(file, env),
  }
  const gateway = (config.server.workers > 1 ? createSupervisor : createGateway)(config, options)
  const { roll, abandon } = gateway.workers
  const watcher = watch ? watchFiles(file, gateway) : undefined
  await watcher?.begin()
  const { listen, admin } = await gateway.listen().catch((error: unknown) => {
    throw error instanceof ListenError ? explain(error, config) : error
  })
  const urlOf = ({ host, port }: ListenAddress, tls?: object): string =>
    `http${tls === undefined ? '' : 's'}://${hostForUrl(host)}:${port}`
  const origin = urlOf(listen, config.server.tls)
  print(`tollgate listening on ${origin}${config.server.basePath || '/'}`)
  const adminOrigin = urlOf(admin, config.admin.tls)
  print(`admin listening on ${adminOrigin}`)
  void watcher?.start()
  return {
    running: {
      stop: () => {
        watcher?.close()
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

const watchFiles = (file: string, { reloads }: Gateway): FileWatch =>
  new FileWatch({
    files: () => filesOf(file, reloads.config),
    take: async (wish) => (await reloads.reload(wish)).outcome !== 'refused',
  })

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

function explain({ listener, cause }: ListenError, { server, admin }: Config): unknown {
  const [{ host, port }, setting] =
    listener === 'public' ? [server.listen, 'server.listen'] : [admin.listen, 'admin.listen']
  const what = `the ${listener} listener cannot listen on ${hostForUrl(host)}:${port}`
  return explainPort(cause, what, `${setting} in the config`)
}
