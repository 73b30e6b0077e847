/** Whether this gateway should be sent requests, and why not. */
import type { ReadinessReport } from './server.ts'
import type { Backend } from '../backends/backend.ts'
import type { BackendProbe } from '../backends/probe.ts'
import type { Config } from '../config/config.ts'

export interface ReadinessParts {
  readonly config: Config
  /** Whether the public listener takes requests, and in words. */
  listener(): { readonly ok: boolean; readonly reason: string }
  isStoreAvailable(): boolean
  readonly backends: BackendProbe
}

export function createReadiness(parts: ReadinessParts): () => Promise<ReadinessReport> {
  return async function readiness() {
    const { config } = parts
    const backends = backendCheck(await parts.backends())
    const checks = [
      { name: 'config', ok: true, reason: `revision ${config.revision}` },
      { name: 'listener', ...parts.listener() },
      storeCheck(config, parts.isStoreAvailable()),
      backends,
    ]
    return { checks }
  }
}

/** Those that cannot be reached are named, but one that can be is enough. */
function backendCheck(backends: readonly Backend[]): ReadinessReport['checks'][number] {
  const faults = backends.flatMap(({ name, fault }) =>
    fault === undefined ? [] : [`${name}: ${fault}`],
  )
  const ok = faults.length < backends.length
  return { name: 'backend', ok, reason: faults.length === 0 ? 'reachable' : faults.join('; ') }
}

/** Only a gateway that refuses everything without its store is of no use without it. */
function storeCheck({ store }: Config, available: boolean): ReadinessReport['checks'][number] {
  const name = 'store'
  if (store.redis === undefined) return { name, ok: true, reason: 'embedded' }
  if (available) return { name, ok: true, reason: 'available' }
  return { name, ok: store.onOutage !== 'closed', reason: `away; onOutage is ${store.onOutage}` }
}
