/** All operations of the admin API. docs/admin-openapi.yaml describes them. */
import { getBans, imposeBan, liftBan, type BanNeeds } from './ban-operations.ts'
import { getClient, getClients, resetClient, type ClientNeeds } from './client-operations.ts'
import { getConfig, getKeys, reload, type ConfigNeeds } from './config-operations.ts'
import {
  getEvents,
  getOverview,
  getRequest,
  getRequests,
  getTop,
  type LiveNeeds,
} from './live-operations.ts'
import { getDeprecations, type DeprecationNeeds } from './deprecation-operations.ts'
import { explain, type ExplainNeeds } from './explain-operations.ts'
import { change, inquire, look, type Operation } from './operation.ts'
import { getShadow, type ShadowNeeds } from './shadow-operations.ts'
import { getClientUsage, getUsage, type UsageNeeds } from './usage-operations.ts'
import {
  getBackends,
  getRoutes,
  getStore,
  getWorkers,
  type StateNeeds,
} from './state-operations.ts'

/** Needs of all operations together; server/gateway/admin-parts.ts provides them. */
export type ApiNeeds = ConfigNeeds &
  BanNeeds &
  LiveNeeds &
  UsageNeeds &
  StateNeeds &
  ClientNeeds &
  DeprecationNeeds &
  ShadowNeeds &
  ExplainNeeds

export const operations: readonly Operation<ApiNeeds>[] = [
  look('/api/config', getConfig),
  look('/api/keys', getKeys),
  look('/api/overview', getOverview),
  look('/api/top', getTop),
  look('/api/events', getEvents),
  look('/api/requests', getRequests),
  look('/api/requests/{id}', getRequest),
  inquire('/api/explain', explain),
  look('/api/clients', getClients),
  look('/api/clients/{id}', getClient),
  change('POST', '/api/clients/{id}/reset', { action: 'resetUsage', handle: resetClient }),
  look('/api/deprecations', getDeprecations),
  look('/api/shadow', getShadow),
  look('/api/bans', getBans),
  change('PUT', '/api/bans/{key}', { action: 'ban', handle: imposeBan }),
  change('DELETE', '/api/bans/{key}', { action: 'liftBan', handle: liftBan }),
  look('/api/usage', getUsage),
  look('/api/clients/{id}/usage', getClientUsage),
  look('/api/routes', getRoutes),
  look('/api/backends', getBackends),
  look('/api/store', getStore),
  look('/api/workers', getWorkers),
  change('POST', '/api/reload', { action: 'reload', handle: reload }),
]
