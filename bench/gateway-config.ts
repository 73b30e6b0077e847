/** The gateway's configuration for the bench, as the file it reads. */
import {
  ampleClients,
  ampleLimits,
  exhaustedClients,
  exhaustedLimits,
  type BenchClient,
} from './workload.ts'

export interface GatewayVariant {
  readonly engine: 'direct' | 'http-proxy-3'
  /** undefined: the embedded store. */
  readonly redis: string | undefined
  readonly backend: string
  /** Default: auto. */
  readonly lease?: 'auto' | 'off'
  /** Default: 1. */
  readonly workers?: number
  /** A key that goes on after its first 429 is banned for longer than the bench lasts. Default: no key is ever banned. */
  readonly bansAtOnce?: boolean
}

/** JSON, which is YAML too. Access log and metrics stay on, as in production. */
export function gatewayConfig(variant: GatewayVariant): string {
  const { engine, redis, backend, lease = 'auto', workers = 1, bansAtOnce = false } = variant
  const client =
    (limits: typeof ampleLimits) =>
    ({ id, sha256 }: BenchClient) => ({
      id,
      plan: 'enterprise',
      limits,
      keys: [{ id: `${id}-key`, sha256 }],
    })
  return JSON.stringify({
    server: { listen: '127.0.0.1:0', basePath: '/v1', workers },
    admin: { listen: '127.0.0.1:0' },
    upstream: { urls: [backend], engine },
    store: { redis: redis ?? '', lease, file: '' },
    plans: { enterprise: { custom: true } },
    clients: [
      ...ampleClients.map(client(ampleLimits)),
      ...exhaustedClients.map(client(exhaustedLimits)),
    ],
    // The refusals measured are 401, and the 429 of a used-up window or of a ban: none may turn into another on the way.
    anonymous: { perMinute: 1_000_000_000 },
    // Without grace each refusal counts as a strike.
    bans: bansAtOnce
      ? { strikes: 1, within: '1s', grace: '0s', duration: '1h' }
      : { strikes: 1_000_000, within: '1s', grace: '0s' },
    routes: [
      { name: 'listPets', match: 'GET /pets' },
      { name: 'createPet', match: 'POST /pets' },
      { name: 'getPet', match: 'GET /pets/{petId}' },
      { name: 'listOrders', match: 'GET /store/orders' },
    ],
    log: { level: 'info', access: true },
  })
}
