/** Finds the caller that a name in a log means: a key in Tollgate's own log, a client or a key in another. */
import { createTokenCallers } from '../../core/credentials/token-callers.ts'
import type { Config } from '../../config/config.ts'
import { createCaller, type Caller } from '../../core/rules/credentials.ts'

const TOKEN_PREFIX = 'jwt:'

/** Makes the function that finds callers. undefined: the configuration lacks the name. */
export function createCallers(config: Config) {
  const { clients, plans } = config
  const isStructured = config.server.structuredQuotaHeaders
  const ofToken = createTokenCallers({ clients, plans, isStructured })
  /** planOfLine: the plan that the line names, if any. isOwn: the log is Tollgate's own, which names keys. */
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
    if (!name.startsWith(TOKEN_PREFIX) || config.jwt === undefined) return undefined
    const clientId = name.slice(TOKEN_PREFIX.length)
    return ofToken({ kid: undefined, clientId, plan: planOfLine, expiresAtMs: Infinity })
  }
}
