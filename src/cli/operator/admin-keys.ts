/** The clients of a running gateway, and what a configuration would change for them. */
import type { ClientsPage } from '../../admin/clients/operations.ts'
import { effectiveConfig, fingerprint } from '../../admin/config/operations.ts'
import type { Effective, KeysPage } from '../../admin/config/operations.ts'
import { ClientTable } from '../../config/clients/client-table.ts'
import { Scratch } from '../../config/clients/columns.ts'
import type { ClientConfig, Config } from '../../config/config.ts'
import { blastRadius } from '../../config/changes/blast-radius.ts'
import { ask, type AdminOf } from './asking.ts'

/** Keys have fingerprints in place of digests. query: see the operation getKeys. revision: as requested. Rejects when another configuration is taken meanwhile. */
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

const asConfigured = ({ keys, ...client }: KeysPage['clients'][number]): ClientConfig => ({
  ...client,
  concurrent: 0,
  keys: keys.map(({ id, fingerprint: shown, expires }) => ({
    id,
    sha256: asDigest(shown),
    expiresAtMs: expires === null ? undefined : Date.parse(expires),
  })),
})

/** Pads a fingerprint to the length of a digest, which a table of clients has room for. */
const asDigest = (shown: string): string => shown.padEnd(64, '0')

/** Neither side shows a secret: only changed keys are noticed, as their fingerprints are compared. nearest: who the gateway has seen nearest a limit. */
export async function changesAgainst(gateway: AdminOf, next: Config) {
  const current = await ask<Effective>(gateway, '/api/config')
  const running: ClientConfig[] = []
  for await (const client of clientsOf(gateway, {}, current.revision)) running.push(client)
  const planned = Array.from(next.clients, ({ keys, ...client }) => ({
    ...client,
    keys: keys.map((key) => ({ ...key, sha256: asDigest(fingerprint(key.sha256)) })),
  }))
  // This is the form that it has over the wire.
  const effective = JSON.parse(JSON.stringify(effectiveConfig(next))) as Effective
  const after = { ...comparable(effective, planned), locations: next.locations }
  const radius = await blastRadius(comparable(current, running), after)
  // They only order names: what changes is known without them.
  const seen = await ask<ClientsPage>(gateway, '/api/clients?sort=nearest').catch(() => undefined)
  return { radius, nearest: seen?.clients.map(({ id }) => id) }
}

function comparable({ revision, config }: Effective, list: readonly ClientConfig[]): Config {
  const settings = config as Config & { plans: object }
  const plans = new Map(Object.entries(settings.plans)) as Config['plans']
  const bytes = list.reduce((sum, client) => sum + JSON.stringify(client).length, 0)
  const scratch = new Scratch([...plans.keys()], bytes)
  for (const client of list) scratch.add(client, 0)
  return {
    ...settings,
    revision,
    plans,
    clients: new ClientTable(
      scratch.finish(() => undefined),
      plans,
    ),
  }
}
