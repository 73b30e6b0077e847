/** The clients of a running gateway, and what a configuration would change for them. */
import { effectiveConfig } from '../../admin/config/operations.ts'
import { fingerprint, type KeysPage, type ShownClient } from '../../admin/config/keys-page.ts'
import type { ClientConfig, Config, OwnedKey } from '../../config/config.ts'
import { blastRadius, type BlastRadius } from '../../config/changes/blast-radius.ts'
import { ask, type AdminOf } from './asking.ts'

/** Keys have fingerprints for digests. query: see the operation getKeys. revision: as requested. Rejects when another configuration is taken meanwhile. */
export async function* clientsOf(
  gateway: AdminOf,
  query: Readonly<Record<string, string>> = {},
  revision?: string,
): AsyncGenerator<ClientConfig> {
  let cursor: string | null = '0'
  for (let seen = revision; cursor !== null;) {
    const path = `/api/keys?${new URLSearchParams({ ...query, cursor }).toString()}`
    const page: KeysPage = await ask<KeysPage>(gateway, path)
    seen ??= page.revision
    if (page.revision !== seen)
      throw new Error(`${gateway.admin} has taken another config meanwhile; try again`)
    yield* page.clients.map(asConfigured)
    cursor = page.cursor
  }
}

const asConfigured = ({ keys, ...client }: ShownClient): ClientConfig => ({
  ...client,
  concurrent: 0,
  keys: keys.map(({ id, fingerprint: sha256, expires }) => ({
    id,
    sha256,
    expiresAtMs: expires === null ? undefined : Date.parse(expires),
  })),
})

type Effective = ReturnType<typeof effectiveConfig>

/** Neither side shows a secret: only changed keys are noticed, as their fingerprints are compared. */
export async function radiusAgainst(gateway: AdminOf, next: Config): Promise<BlastRadius> {
  const current = await ask<Effective>(gateway, '/api/config')
  const running: ClientConfig[] = []
  for await (const client of clientsOf(gateway, {}, current.revision)) running.push(client)
  const planned = Array.from(next.clients, ({ keys, ...client }) => ({
    ...client,
    keys: keys.map((key) => ({ ...key, sha256: fingerprint(key.sha256) })),
  }))
  // This is the form that it has over the wire.
  const effective = JSON.parse(JSON.stringify(effectiveConfig(next))) as Effective
  return blastRadius(comparable(current, running), comparable(effective, planned))
}

function comparable({ revision, config }: Effective, list: readonly ClientConfig[]) {
  const settings = config as Config & { plans: object }
  const byId = new Map(list.map((client) => [client.id, client]))
  const keys = new Map<string, OwnedKey>()
  for (const client of list) for (const key of client.keys) keys.set(key.id, { client, key })
  return {
    ...settings,
    revision,
    warnings: [],
    certificates: [],
    written: {},
    locations: { files: [], lines: new Map<string, number>() },
    plans: new Map(Object.entries(settings.plans)) as Config['plans'],
    clients: {
      get: (id: string) => byId.get(id),
      keyById: (id: string) => keys.get(id),
      [Symbol.iterator]: () => list[Symbol.iterator](),
    },
  }
}
