/** Who a name in a log is, by one configuration: the key of our own log, the client or the key of another's. */
import { createTokenCallers } from '../../core/credentials/token-callers.ts'
import type { Config } from '../../config/config.ts'
import { createCaller, type Caller } from '../../core/rules/credentials.ts'

const OF_TOKEN = 'jwt:'

/** undefined: the configuration has nobody of that name. */
export function createCallers(config: Config) {
  const { clients, plans } = config
  const isStructured = config.server.structuredQuotaHeaders
  const ofToken = createTokenCallers({ clients, plans, isStructured })
  /** plan: of the line, where it tells. isOwn: it is of our own log, which names keys. */
  return (name: string, planOfLine: string | undefined, isOwn: boolean): Caller | undefined => {
    const owned = clients.keyById(name)
    const client = owned?.client ?? (isOwn ? undefined : clients.get(name))
    if (client !== undefined) {
      const { id: clientId, plan, limits, concurrent } = client
      const expiresAtMs = owned?.key.expiresAtMs ?? Infinity
      const keyDigest = owned?.key.sha256
      const known = { clientId, plan, limits, concurrent, keyId: name, expiresAtMs, keyDigest }
      return createCaller(known, isStructured)
    }
    if (!name.startsWith(OF_TOKEN) || config.jwt === undefined) return undefined
    const clientId = name.slice(OF_TOKEN.length)
    return ofToken({ kid: undefined, clientId, plan: planOfLine, expiresAtMs: Infinity })
  }
}
