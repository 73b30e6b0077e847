/** One server as the configuration has it, from the URL that a test's own redis-server is reached by. */
import type { RedisConfig } from '../../src/config/config.ts'
import { parseRedisUrl } from '../../src/config/redis.ts'
import type { RedisOptions } from '../../src/state/redis/connections.ts'
import { RedisStore } from '../../src/state/redis/redis.ts'
import { gatewayEnds } from './ending.ts'

const systemTrust = {
  caFile: undefined,
  certFile: undefined,
  keyFile: undefined,
  serverName: undefined,
}

export function serversAt(url: string): RedisConfig {
  const read = parseRedisUrl(url)
  if (read === undefined) throw new Error(`${url} is no Redis URL`)
  const { host, port, db, username, password, tls } = read
  const addresses = [{ host, port }]
  return { kind: 'server', addresses, db, username, password, tls: tls ? systemTrust : undefined }
}

/** Closed at the end of the file, before what it is connected to. */
export function redisAt(
  servers: string | RedisConfig,
  options: Omit<RedisOptions, 'servers'>,
): RedisStore {
  const store = new RedisStore({
    ...options,
    servers: typeof servers === 'string' ? serversAt(servers) : servers,
  })
  gatewayEnds(() => store.close())
  return store
}
