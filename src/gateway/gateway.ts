/** The composition root of a gateway of one process; src/workers/ has those of several. */
import { startAdminServer, type AdminServer } from '../admin/server.ts'
import { createAddressCounter } from '../counters/anonymous-limiter.ts'
import { createBackendProbe } from '../backends/probe.ts'
import type { KeySetFault } from '../credentials/jwt-verifier.ts'
import type { Log } from '../observability/log.ts'
import { createMetrics } from '../observability/metrics.ts'
import type { Config, ListenAddress } from '../config/config.ts'
import { storeInWords } from '../config/store-words.ts'
import { drainDelay, stopIdleMs } from './drain-times.ts'
import { ListenError } from './listen-error.ts'
import { createReadiness, embeddedHealth } from '../admin/readiness.ts'
import { configNames, createServing } from './serving.ts'
import { openStores } from './stores.ts'

/**
 * listen resolves with the real addresses once both listeners are up; rejects with ListenError when one cannot be had.
 * drain answers what is in flight within server.timeouts.drain, hands quota back and closes everything. Never rejects.
 */
export type Gateway = ReturnType<typeof createGateway>

/** log: closed by drain, and if listen rejects. */
export function createGateway(config: Config, { version, log }: { version: string; log: Log }) {
  const metrics = createMetrics({ version, ...configNames(config) })
  const stores = openStores({ config, log, metrics })
  let keySetFault: KeySetFault | undefined
  const serving = createServing({
    config,
    log,
    metrics,
    stores,
    addresses: createAddressCounter(),
    onKeySet: (fault) => (keySetFault = fault),
  })
  let admin: AdminServer | undefined
  let listening = false
  const readiness = createReadiness({
    config,
    listener: () => ({ ok: listening, reason: listening ? 'up' : 'starting or draining' }),
    store: () => stores.redis ?? embeddedHealth,
    unsaved: () => stores.unsaved?.(),
    keySetFault: () => keySetFault,
    sheds: () => [serving.load.shed],
    backends: createBackendProbe(serving.balancer, config.upstream),
  })
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
      admin = await startAdminServer({
        ...config.admin,
        renderMetrics: () => {
          metrics.bannedKeys(serving.bannedKeys)
          metrics.countersUnsaved(stores.unsaved?.()?.seconds ?? 0)
          return metrics.render()
        },
        readiness,
        onError: (error) => log.adminFailed(error),
      }).catch(abandon('admin'))
      const listen = await serving.listen().catch(abandon('public'))
      listening = true
      logConfig(log, config)
      log.listening({ listener: 'public', ...listen })
      log.listening({ listener: 'admin', ...admin.address })
      return { listen, admin: admin.address }
    },
    async drain(): Promise<void> {
      listening = false
      await drainDelay(log, config.server.timeouts)
      await serving.drain({ idleMs: stopIdleMs(config.server.timeouts.drainMs) })
      await close()
    },
  }
}

function logConfig(log: Log, { revision, store, warnings }: Config): void {
  log.configTaken({ revision, store: storeInWords(store) })
  for (const problem of warnings) log.configWarning({ problem })
}
