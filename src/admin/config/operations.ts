/** Operations on the configuration: show and reload. */
import { z } from 'zod'
import type { Config } from '../../config/config.ts'
import { withoutSecrets } from '../../config/problems.ts'
import { fault, json, type Answer } from '../answers.ts'
import { change, checked, look, readJson, type Operation } from '../operation.ts'
import { keysPage } from './keys-page.ts'

/** Most clients that are shown: more would hold up requests. */
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
  ...settings
}: Config) {
  const listed = Array.from(clients.slice(0, MOST_CLIENTS))
  return {
    revision,
    warnings,
    clientCount: clients.size,
    config: {
      ...(withoutSecrets({ ...settings, clients: listed }) as object),
      // Plans hold no secrets, and may have any name.
      plans: Object.fromEntries(plans),
    },
    written,
  }
}

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
const FORM = 'Send no body, or one of {"dryRun":true} and {"revision":"REVISION"}.'

export const configOperations: readonly Operation[] = [
  look('/api/config', ({ reloads }) => shownConfig(reloads.config)),
  look('/api/keys', ({ reloads }, { query }) => keysPage(reloads.config, query)),
  change('POST', 'reload')('/api/reload', async ({ reloads }, { request, audit }) => {
    const before = reloads.config.revision
    Object.assign(audit, { before, after: before })
    const asked = checked(await readJson(request), wish, FORM) ?? {}
    const outcome = await reloads.reload(asked)
    const after = reloads.config.revision
    Object.assign(audit, { ...asked, outcome: outcome.outcome, after })
    if (outcome.outcome === 'refused') return fault('config_refused', { ...outcome })
    if (outcome.outcome === 'filesChanged') return fault('files_changed', { ...outcome })
    return json(200, outcome)
  }),
]
