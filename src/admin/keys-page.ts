/** A page of the configured clients with their keys. Fingerprints of digests show whether the secret under an id has changed. */
import { createHash } from 'node:crypto'
import type { ClientConfig, Config } from '../config/config.ts'
import { clientId, duration } from '../config/scalars.ts'
import { DAY_MS } from '../config/time.ts'
import { invalidRequest, json, type Answer } from './answers.ts'

/** Clients on one page: more would hold up requests. */
const CLIENTS_A_PAGE = 1_000

const within = duration({ min: 0, max: 4000 * DAY_MS })

export interface ShownClient extends Pick<ClientConfig, 'id' | 'plan' | 'limits'> {
  /** expires: null is never. */
  readonly keys: readonly {
    readonly id: string
    readonly expires: string | null
    readonly fingerprint: string
  }[]
}

export interface KeysPage {
  readonly revision: string
  readonly clients: readonly ShownClient[]
  /** Cursor of the next page; null: this is the last. */
  readonly cursor: string | null
}

export const fingerprint = (sha256: string): string =>
  createHash('sha256').update(sha256).digest('hex').slice(0, 8)

const malformed = invalidRequest(
  'Ask with ?client=ID, ?expiring=30d, ?cursor=CURSOR of the page before, or none of them.',
)

/** expiring: only keys that end within this time and have not ended yet, and their clients. */
export function keysPage({ revision, clients }: Config, query: URLSearchParams): Answer {
  const { client, expiring, cursor = '0', ...unknown } = Object.fromEntries(query)
  const withinMs = expiring === undefined ? undefined : within.safeParse(expiring).data
  const isSound = withinMs !== undefined || expiring === undefined
  const isKnown =
    Object.keys(unknown).length === 0 &&
    (client === undefined || clientId.safeParse(client).success)
  if (!isSound || !isKnown || !/^\d{1,9}$/.test(cursor)) return malformed
  const nowMs = Date.now()
  const [from, to] = [Number(cursor), Number(cursor) + CLIENTS_A_PAGE]
  const one = client === undefined ? undefined : clients.get(client)
  const asked = client === undefined ? clients.slice(from, to) : one === undefined ? [] : [one]
  const shown = Array.from(asked, ({ id, plan, limits, keys }): ShownClient => ({
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
        expires: key.expiresAtMs === undefined ? null : new Date(key.expiresAtMs).toISOString(),
        fingerprint: fingerprint(key.sha256),
      })),
  }))
  const page: KeysPage = {
    revision,
    clients: shown.filter(({ keys }) => withinMs === undefined || keys.length > 0),
    cursor: client === undefined && to < clients.size ? String(to) : null,
  }
  return json(200, page)
}
