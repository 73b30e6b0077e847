/** Whether this gateway should be sent requests, and why not. */
import type { BackendHealth } from '../core/backends/backend.ts'
import type { Config } from '../config/config.ts'
import type { KeySetFault } from '../core/credentials/key-source.ts'
import type { StoreHealth, UnsavedCounters } from '../state/contract.ts'
import type { Shed } from '../core/rules/overload.ts'
import type { GatewayState } from './operation.ts'

/** Ready means that every check is ok. */
export interface ReadinessReport {
  /** One entry per thing the gateway needs: configuration, listener, store, backend. */
  readonly checks: readonly {
    readonly name: string
    readonly ok: boolean
    readonly reason?: string
    /** Address of a store that others share. */
    readonly server?: string
    /** cause and since are those of a backend that is not up. */
    readonly backends?: readonly Record<'name' | 'state' | 'cause' | 'since', string | undefined>[]
    /** A fault that does not make this gateway useless. */
    readonly warning?: string | undefined
  }[]
}

type Check = ReadinessReport['checks'][number]

/** fault: why a later configuration than the one in force was refused. */
export async function readiness(
  { config, fault }: { readonly config: Config; readonly fault: string | undefined },
  state: GatewayState,
): Promise<ReadinessReport> {
  const backends = backendCheck(await state.probe())
  const warning = fault === undefined ? undefined : `a reload was refused: ${fault}`
  return {
    checks: [
      { name: 'config', ok: true, reason: `revision ${config.revision}`, warning },
      { name: 'listener', ...state.listener() },
      loadCheck(state.sheds()),
      storeCheck(config, state.store(), state.unsaved()),
      credentialsCheck(config, state.keySetFault()),
      backends,
      ...logCheck(state.logFault()),
    ],
  }
}

/** Requests are still answered, so the gateway stays ready. */
function logCheck(fault: string | undefined): Check[] {
  if (fault === undefined) return []
  return [{ name: 'log', ok: true, reason: 'no line can be written', warning: fault }]
}

/** The gateway is not ready when all its processes refuse all new requests. */
function loadCheck(sheds: readonly Shed[]): Check {
  const name = 'load'
  const busy = sheds.filter((shed) => shed !== 'nothing').length
  if (busy === 0) return { name, ok: true, reason: 'in time' }
  const ok = sheds.some((shed) => shed !== 'everything')
  const refused = ok ? 'those without a valid credential first' : 'all'
  const reason = `the event loop of ${busy} of ${sheds.length} processes is late; new requests are refused, ${refused}`
  return { name, ok, reason }
}

/** Names the backends that are not well and why, but one usable backend is enough. */
function backendCheck(backends: readonly BackendHealth[]): Check {
  const faults = backends.flatMap(({ name, fault }) =>
    fault === undefined ? [] : [`${name}: ${fault}`],
  )
  return {
    name: 'backend',
    ok: backends.some(({ isUsable }) => isUsable),
    reason: faults.length === 0 ? 'reachable' : faults.join('; '),
    backends: backends.map(
      ({ fault: cause, isUsable: _isUsable, nextTryAtMs: _next, ...seen }) => ({ ...seen, cause }),
    ),
  }
}

/** A gateway stays ready while its store is away, unless it then refuses everything; a refusal by the store needs an operator, so it must be seen. */
function storeCheck(
  { store }: Config,
  { available, cause, refusal, ...health }: StoreHealth,
  unsaved: UnsavedCounters | undefined,
): Check {
  const name = 'store'
  const warning = unsaved?.warning ?? health.warning
  const { shared } = store
  if (shared === undefined) return { name, ok: true, reason: 'embedded', warning }
  const where = { server: shared.servers, warning }
  if (refusal !== undefined) return { name, ok: false, reason: refusal, ...where }
  if (available) return { name, ok: true, reason: 'available', ...where }
  const reason = `away (${cause}); onOutage is ${store.onOutage}`
  return { name, ok: store.onOutage !== 'closed', reason, ...where }
}

/** An issuer that is away must not stop callers with API keys: the gateway is unready only if it can check no credential at all. */
function credentialsCheck({ jwt, clients }: Config, fault: KeySetFault | undefined): Check {
  const name = 'credentials'
  if (jwt === undefined) return { name, ok: true, reason: 'API keys' }
  if (fault === undefined) return { name, ok: true, reason: 'API keys and tokens' }
  const warning = `the key set of the token issuer cannot be fetched: ${fault.cause}`
  if (fault.hasKeys) return { name, ok: true, reason: 'the last key set is used', warning }
  const ok = clients.keyCount > 0
  return { name, ok, reason: `no key set yet${ok ? ', API keys only' : ''}`, warning }
}
