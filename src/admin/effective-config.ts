/** The configuration in force with all its defaults, as JSON for operators: no secret, and no digest of one. */
import type { Config } from '../config/config.ts'

/** Most clients that are shown: more would hold up requests. */
const MOST_CLIENTS = 1_000

const secretName = /sha256|password|secret/i
const loginInUrl = /^([a-z][a-z0-9+.-]*:\/\/)[^/@]*@/i

export function effectiveConfig({
  revision,
  warnings,
  certificates: _certificates,
  clients,
  plans,
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
  }
}

function withoutSecrets(value: unknown): unknown {
  if (typeof value === 'string') return value.replace(loginInUrl, '$1')
  if (Array.isArray(value)) return value.map(withoutSecrets)
  if (typeof value !== 'object' || value === null) return value
  const shown = Object.entries(value).filter(([name]) => !secretName.test(name))
  return Object.fromEntries(shown.map(([name, inner]) => [name, withoutSecrets(inner)]))
}
