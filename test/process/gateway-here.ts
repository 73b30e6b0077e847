/** A gateway in the process of the tests, with the members of one that is a process: for whatever asks nothing of the process. */
import { loadUsableConfig } from '../../src/cli/load-usable-config.ts'
import { createGateway } from '../../src/gateway/gateway.ts'
import { createLog } from '../../src/observability/log.ts'
import { atEnd, call, eventually, metric, type GatewayProcess } from './gateways.ts'

type Shared = 'stderr' | 'origin' | 'adminOrigin' | 'call' | 'metric' | 'logged'

export interface GatewayHere extends Pick<GatewayProcess, Shared> {
  /** As SIGHUP. */
  reload(): Promise<unknown>
  /** As SIGTERM; resolves when it has drained. */
  stop(): Promise<void>
}

/** See gatewayProcess; endAll stops it. */
export async function gatewayHere(
  file: string,
  { env = {}, waitForStore = true }: { env?: Record<string, string>; waitForStore?: boolean } = {},
): Promise<GatewayHere> {
  const config = await loadUsableConfig(file, env)
  const lines: string[] = []
  const gateway = createGateway(config, {
    version: '0.0.0-test',
    load: () => loadUsableConfig(file, env, { isServing: true }),
    log: createLog({ ...config.log, destination: { write: (line) => lines.push(line) } }),
  })
  const { listen, admin } = await gateway.listen()
  const [origin, adminOrigin] = [listen, admin].map(({ port }) => `http://127.0.0.1:${port}`) as [
    string,
    string,
  ]
  let stopped: Promise<void> | undefined
  const stop = () => (stopped ??= gateway.drain())
  atEnd(stop)
  if (waitForStore)
    await eventually('the store is in use', async () =>
      /"(?:available|embedded)"/.test(await (await fetch(`${adminOrigin}/readyz`)).text()),
    )
  return {
    origin,
    adminOrigin,
    call: (key, path = '/v1/pets', init = {}) => call(`${origin}${path}`, key, init),
    metric: (start) => metric(adminOrigin, start),
    stderr: () => lines.join(''),
    logged: (event) =>
      lines
        .join('')
        .split('\n')
        .filter((line) => line.includes(`"${event}"`))
        .map((line) => JSON.parse(line) as Record<string, unknown>)
        .filter((line) => line['event'] === event),
    reload: () => gateway.reload(),
    stop,
  }
}
