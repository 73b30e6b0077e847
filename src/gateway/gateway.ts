/** The composition root of a gateway of one process; src/workers/ has those of several. */
import { startAdminServer, type AdminServer } from '../admin/server.ts'
import { createAddressCounter, PREFLIGHT_WINDOW_MS } from '../counters/anonymous-limiter.ts'
import type { KeySetFault } from '../credentials/jwt-verifier.ts'
import type { Log } from '../observability/log.ts'
import { createMetrics } from '../observability/metrics.ts'
import type { Config, ListenAddress } from '../config/config.ts'
import { storeInWords } from '../config/store-words.ts'
import { drainDelay, stopIdleMs } from './drain-times.ts'
import { ListenError } from './listen-error.ts'
import { createReadiness, embeddedHealth } from '../admin/readiness.ts'
import type { ReloadWish } from '../rules/reload-outcome.ts'
import { Reloader, type LoadConfig } from './reloader.ts'
import { configNames, createServing } from './serving.ts'
import { openStores } from './stores.ts'

/**
 * listen resolves with the real addresses once both listeners are up; rejects with ListenError when one cannot be had.
 * drain answers what is in flight within server.timeouts.drain, hands quota back and closes everything. Never rejects.
 */
export type Gateway = ReturnType<typeof createGateway>

export interface GatewayOptions {
  readonly version: string
  /** Closed by drain, and if listen rejects. */
  readonly log: Log
  /** For a reload. */
  readonly load: LoadConfig
}

export function createGateway(config: Config, options: GatewayOptions) {
  const { log } = options
  const { serving, reloader, startAdmin } = createParts(config, options, () => listening)
  let admin: AdminServer | undefined
  let listening = false
  const close = async (): Promise<void> => {
    await admin?.close()
    await serving.close()
    await log.close()
  }
  return {
    async listen(): Promise<{ listen: ListenAddress; admin: ListenAddress }> {
      const abandon = (listener?: 'public' | 'admin') => async (error: unknown) => {
        await close()
        throw listener === undefined ? error : new ListenError(listener, error)
      }
      await serving.ready().catch(abandon())
      admin = await startAdmin().catch(abandon('admin'))
      const listen = await serving.listen().catch(abandon('public'))
      listening = true
      logConfig(log, reloader.config)
      log.listening({ listener: 'public', ...listen })
      log.listening({ listener: 'admin', ...admin.address })
      return { listen, admin: admin.address }
    },
    /** In force. */
    config: () => reloader.config,
    reload: (wish?: ReloadWish) => reloader.reload(wish),
    async drain(): Promise<void> {
      listening = false
      reloader.close()
      const { timeouts } = reloader.config.server
      await drainDelay(log, timeouts)
      await serving.drain({ idleMs: stopIdleMs(timeouts.drainMs) })
      await close()
    },
  }
}

function createParts(
  config: Config,
  { version, log, load }: GatewayOptions,
  isListening: () => boolean,
) {
  const metrics = createMetrics({ version, ...configNames(config) })
  const stores = openStores({ config, log, metrics })
  let keySetFault: KeySetFault | undefined
  const serving = createServing({
    config,
    log,
    metrics,
    stores,
    addresses: createAddressCounter(),
    preflights: createAddressCounter({ windowMs: PREFLIGHT_WINDOW_MS }),
    onKeySet: (fault) => (keySetFault = fault),
  })
  const reloader = new Reloader({ config, load, target: serving, log })
  metrics.watchReloads(reloader)
  const readiness = createReadiness({
    reloads: reloader,
    listener: () => ({ ok: isListening(), reason: isListening() ? 'up' : 'starting or draining' }),
    store: () => stores.redis ?? embeddedHealth,
    unsaved: () => stores.unsaved?.(),
    keySetFault: () => keySetFault,
    sheds: () => [serving.load.shed],
    backends: () => serving.probeBackends(),
  })
  const startAdmin = (): Promise<AdminServer> =>
    startAdminServer({
      listen: config.admin.listen,
      reloads: reloader,
      audit: log.audit,
      auditRefused: log.auditRefused,
      renderMetrics: () => {
        metrics.bannedKeys(serving.bannedKeys)
        metrics.countersUnsaved(stores.unsaved?.()?.seconds ?? 0)
        return metrics.render()
      },
      readiness,
      onError: (error) => log.adminFailed(error),
    })
  return { serving, reloader, startAdmin }
}

function logConfig(log: Log, { revision, store, warnings }: Config): void {
  log.configTaken({ revision, store: storeInWords(store) })
  for (const problem of warnings) log.configWarning({ problem })
}
