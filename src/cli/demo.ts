/** `npm start`: catalogue service, gateway and admin listener, with a demo key per plan. */
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startCatalogue } from '../catalogue/server.ts'
import { hostForUrl } from './host-for-url.ts'
import { loadTestKey, planDemoKeys } from './demo-keys.ts'
import { explainPort } from './explain-port.ts'
import { loadUsableConfig } from './load-usable-config.ts'
import type { Running } from './running.ts'
import { startGateway, type StartOptions } from './start.ts'

const DEFAULT_CONFIG = fileURLToPath(new URL('../../config/gateway.yaml', import.meta.url))
const DEFAULT_DB = 'data/catalogue.db'

export async function demoCommand(
  options: StartOptions & { readonly db?: string },
): Promise<Running> {
  const { print, db = DEFAULT_DB, config: file = DEFAULT_CONFIG } = options
  const config = loadUsableConfig(file, options.env)
  mkdirSync(dirname(db), { recursive: true })
  const backend = new URL(config.upstream.urls[0] ?? '')
  const catalogue = await startCatalogue({
    host: backend.hostname.replace(/^\[|\]$/g, ''),
    port: Number(backend.port || 80),
    file: db,
    seed: true,
  }).catch((error: unknown) => {
    throw explainPort(
      error,
      `the catalogue service cannot listen on ${backend.host}`,
      'upstream.urls in the config',
    )
  })
  const { host, port } = catalogue.address
  print(`catalogue listening on http://${hostForUrl(host)}:${port}/v1 (${db})`)
  const started = await startGateway(config, options).catch(async (error: unknown) => {
    await catalogue.close()
    throw error
  })
  printWelcome(`${started.origin}${config.server.basePath}`, print)
  return {
    ...started.gateway,
    stop: async (reason) => {
      await started.gateway.stop(reason)
      await catalogue.close()
    },
  }
}

function printWelcome(base: string, print: (line: string) => void): void {
  print('')
  print('Demo keys, for this machine only:')
  for (const { plan, key } of planDemoKeys) print(`  ${plan.padEnd(10)} ${key}`)
  print('')
  print(`For load tests, without limits: ${loadTestKey.key}`)
  print('')
  print('Try:')
  print(`  curl -i -H 'Authorization: Bearer ${planDemoKeys[0]?.key}' ${base}/pets`)
  print('')
}
