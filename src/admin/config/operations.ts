/** Operations on the configuration: show it and its keys, and reload. Fingerprints of digests show whether the secret under an id has changed. */
import { hash } from 'node:crypto'
import { z } from 'zod'
import type { Config } from '../../config/config.ts'
import { withoutSecrets } from '../../config/problems.ts'
import { clientId, duration } from '../../config/scalars.ts'
import { fault, iso, json, type Answer } from '../answers.ts'
import { change, checked, look, readJson, type ApiNeeds, type Call } from '../operation.ts'

/** Most clients that are shown at once: more would hold up requests. */
const MOST_CLIENTS = 1_000

/** The configuration in force with all its defaults, as JSON for operators: no secret, and no digest of one. */
export function effectiveConfig({
  revision,
  warnings,
  certificates: _certificates,
  locations: _locations,
  clients,
  plans,
  written,
  // What stands there follows from the settings.
  store: { shared: _shared, ...store },
  ...settings
}: Config) {
  const listed = Array.from(clients.slice(0, MOST_CLIENTS))
  return {
    revision,
    warnings,
    clientCount: clients.size,
    config: {
      ...(withoutSecrets({ ...settings, store, clients: listed }) as object),
      // Plans hold no secrets, and may have any name.
      plans: Object.fromEntries(plans),
    },
    written,
  }
}

export type Effective = ReturnType<typeof effectiveConfig>

/** The answer is made once for each configuration, as making it holds up requests. */
const shown = new WeakMap<Config, Answer>()

export function shownConfig(config: Config): Answer {
  const made = shown.get(config)
  if (made !== undefined) return made
  const { body, ...answer } = json(200, effectiveConfig(config))
  const inBytes = { ...answer, body: Buffer.from(body) }
  shown.set(config, inBytes)
  return inBytes
}

export const fingerprint = (sha256: string): string => hash('sha256', sha256).slice(0, 8)

const keysQuery = z.strictObject({
  client: clientId.optional(),
  /** Only keys that end within this time and have not ended yet, and their clients. */
  expiring: duration('0ms', '4000d').optional(),
  cursor: z
    .string()
    .regex(/^\d{1,9}$/, 'is none of a page')
    .default('0'),
})
const KEYS_FORM =
  'Ask with ?client=ID, ?expiring=30d, ?cursor=CURSOR of the page before, or none of them.'

export type KeysPage = ReturnType<typeof keysPage>

function keysPage({ reloads }: ApiNeeds, { query }: Call) {
  const { revision, clients } = reloads.config
  const { client, expiring: withinMs, cursor } = checked(query, keysQuery, KEYS_FORM)
  const nowMs = Date.now()
  const [from, to] = [Number(cursor), Number(cursor) + MOST_CLIENTS]
  const one = client === undefined ? undefined : clients.get(client)
  const some = client === undefined ? clients.slice(from, to) : one === undefined ? [] : [one]
  const listed = Array.from(some, ({ id, plan, limits, keys }) => ({
    id,
    plan,
    limits,
    keys: keys
      .filter(
        ({ expiresAtMs = Infinity }) =>
          withinMs === undefined || (expiresAtMs > nowMs && expiresAtMs < nowMs + withinMs),
      )
      .map((key) => ({
        id: key.id,
        /** null: never. */
        expires: iso(key.expiresAtMs),
        fingerprint: fingerprint(key.sha256),
      })),
  }))
  return {
    revision,
    clients: listed.filter(({ keys }) => withinMs === undefined || keys.length > 0),
    /** Cursor of the next page; null: this is the last. */
    cursor: client === undefined && to < clients.size ? String(to) : null,
  }
}

const REVISION = 'is one as GET /api/config has it'
const wish = z
  .strictObject({
    dryRun: z.boolean('is true or false').default(false),
    revision: z
      .string(REVISION)
      .regex(/^[0-9a-f]{1,64}$/, REVISION)
      .exactOptional(),
  })
  .optional()
const RELOAD_FORM = 'Send no body, or one of {"dryRun":true} and {"revision":"REVISION"}.'

export const configOperations = [
  look('/api/config', ({ reloads }) => shownConfig(reloads.config)),
  look('/api/keys', keysPage),
  change('POST', 'reload')('/api/reload', async ({ reloads }, { request, audit }) => {
    const before = reloads.config.revision
    Object.assign(audit, { before, after: before })
    const asked = checked(await readJson(request), wish, RELOAD_FORM) ?? {}
    const outcome = await reloads.reload(asked)
    const after = reloads.config.revision
    Object.assign(audit, { ...asked, outcome: outcome.outcome, after })
    if (outcome.outcome === 'refused') return fault('config_refused', { ...outcome })
    if (outcome.outcome === 'filesChanged') return fault('files_changed', { ...outcome })
    return outcome
  }),
]
