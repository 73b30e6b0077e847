/** The clients of a configuration as objects, found by maps. */
import type { ClientConfig, Clients, Config, OwnedKey } from './config.ts'

/** No id and no digest is there twice: the checks have seen to that. */
export function createClients(list: readonly ClientConfig[]): Clients {
  const byId = new Map(list.map((client) => [client.id, client]))
  const keys = list.flatMap((client) => client.keys.map((key): OwnedKey => ({ client, key })))
  const byDigest = new Map(keys.map((owned) => [owned.key.sha256, owned]))
  const byKeyId = new Map(keys.map((owned) => [owned.key.id, owned]))
  return {
    size: list.length,
    keyCount: keys.length,
    get: (clientId) => byId.get(clientId),
    keyByDigest: (sha256) => byDigest.get(sha256),
    keyById: (keyId) => byKeyId.get(keyId),
    countEnding: (fromMs, beforeMs) =>
      keys.filter(
        ({ key: { expiresAtMs: endMs = Infinity } }) => endMs >= fromMs && endMs < beforeMs,
      ).length,
    [Symbol.iterator]: () => list[Symbol.iterator](),
  }
}

/** A configuration as plain data, which another process can be sent. */
export interface PlainConfig extends Omit<Config, 'clients'> {
  readonly clients: readonly ClientConfig[]
}

export const toPlainConfig = (config: Config): PlainConfig => ({
  ...config,
  clients: [...config.clients],
})

export const fromPlainConfig = (plain: PlainConfig): Config => ({
  ...plain,
  clients: createClients(plain.clients),
})
