/** `tollgate start`: the gateway and its admin listener. */
import type { Config } from '../config/config.ts'
import { createGateway } from '../gateway/gateway.ts'
import { ListenError } from '../gateway/listen-error.ts'
import { hostForUrl } from './host-for-url.ts'
import { explainPort } from './explain-port.ts'
import { loadUsableConfig } from './load-usable-config.ts'
import type { Running } from './running.ts'
import { UsageError } from './usage.ts'
import { createSupervisor } from '../workers/supervisor.ts'

export interface StartOptions {
  readonly config?: string
  readonly env: Record<string, string | undefined>
  readonly version: string
  /** The file that a worker process runs. */
  readonly entry: string
  print(line: string): void
}

/** Rejects with ConfigError or UsageError when the config is refused, else with what kept it from starting. */
export async function startCommand(options: StartOptions): Promise<Running> {
  if (options.config === undefined) throw new UsageError('--config FILE is missing')
  const config = loadUsableConfig(options.config, options.env)
  const { gateway } = await startGateway(config, options)
  return gateway
}

/** Starts both listeners and prints one line for each, with its real address. */
export async function startGateway(
  config: Config,
  { version, entry, print }: Pick<StartOptions, 'version' | 'entry' | 'print'>,
): Promise<{ gateway: Running; origin: string }> {
  const supervisor =
    config.server.workers > 1 ? createSupervisor(config, { version, entry }) : undefined
  const gateway = supervisor ?? createGateway(config, { version })
  const { listen, admin } = await gateway.listen().catch((error: unknown) => {
    throw error instanceof ListenError ? explain(error, config) : error
  })
  const origin = `http://${hostForUrl(listen.host)}:${listen.port}`
  print(`tollgate listening on ${origin}${config.server.basePath || '/'}`)
  print(`admin listening on http://${hostForUrl(admin.host)}:${admin.port}`)
  return {
    gateway: {
      stop: (reason) => gateway.drain(reason),
      crash: (error) => gateway.crash(error),
      ...(supervisor && { roll: supervisor.roll, abandon: supervisor.abandon }),
    },
    origin,
  }
}

function explain({ listener, cause }: ListenError, { server, admin }: Config): unknown {
  const [{ host, port }, setting] =
    listener === 'public' ? [server.listen, 'server.listen'] : [admin.listen, 'admin.listen']
  const what = `the ${listener} listener cannot listen on ${hostForUrl(host)}:${port}`
  return explainPort(cause, what, `${setting} in the config`)
}
