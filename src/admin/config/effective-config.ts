/** The configuration in force with all its defaults, as JSON for operators: no secret, and no digest of one. */
import type { Config } from '../../config/config.ts'
import { withoutSecrets } from '../../config/problems.ts'

/** Most clients that are shown: more would hold up requests. */
const MOST_CLIENTS = 1_000

export function effectiveConfig({
  revision,
  warnings,
  certificates: _certificates,
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
