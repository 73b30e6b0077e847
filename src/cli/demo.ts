/** `npm start`: catalogue service, gateway and admin listener, with a demo key per plan. */
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openCatalogue } from './catalogue.ts'
import type { Config } from '../config/config.ts'
import { createLog, type Log } from '../core/record/log.ts'
import { loadTestKey, loadUsableConfig, planDemoKeys } from './usable-config.ts'
import type { Edge } from './edge.ts'
import { Service } from './service.ts'
import { startGateway } from './start.ts'

const DEFAULT_CONFIG = fileURLToPath(new URL('../../config/gateway.yaml', import.meta.url))
const DEFAULT_DB = 'data/catalogue.db'

export const demoCommand = (
  edge: Edge,
  { config: file = DEFAULT_CONFIG, db = DEFAULT_DB }: { readonly config?: string; db?: string },
): Promise<number> =>
  new Service(edge, { hangUpEnds: true }).run(async (useLog) => {
    const config = await loadUsableConfig(file, edge.env)
    const log = createLog(config.log)
    useLog(log)
    const catalogue = await openBackend(config, db, log)
    edge.print(`catalogue listening on ${catalogue.url} (${db})`)
    const { running, origin, adminOrigin } = await startGateway(edge, { config, file, log }).catch(
      async (error: unknown) => {
        await catalogue.close()
        throw error
      },
    )
    // What a newcomer needs stands last.
    log.flushSync()
    edge.print(welcome(`${origin}${config.server.basePath}`, adminOrigin))
    return {
      ...running,
      stop: async () => {
        await running.stop()
        await catalogue.close()
      },
    }
  })

/** The catalogue service where the config expects its upstream. */
function openBackend({ upstream }: Config, db: string, log: Log) {
  mkdirSync(dirname(db), { recursive: true })
  const { hostname, port } = new URL(upstream.urls[0] ?? '')
  const listen = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80) }
  const setting = 'upstream.urls in the config'
  return openCatalogue({ ...listen, file: db, seed: true, setting }, log)
}

const welcome = (base: string, page: string): string => `
Demo keys, for this machine only:
${planDemoKeys.map(({ plan, key }) => `  ${plan.padEnd(10)} ${key}`).join('\n')}

For load tests, without limits: ${loadTestKey}

Open ${page}/ in a browser: it shows who calls, who is limited, and why.
In another terminal, call the gateway:
  curl -i -H 'Authorization: Bearer ${planDemoKeys[0]?.key}' ${base}/pets
`
