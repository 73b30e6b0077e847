/** A page of the configured clients with their keys. Fingerprints of digests show whether the secret under an id has changed. */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { ClientConfig, Config } from '../../config/config.ts'
import { clientId, duration } from '../../config/scalars.ts'
import { iso, json, type Answer } from '../answers.ts'
import { checked } from '../operation.ts'

/** Clients on one page: more would hold up requests. */
const CLIENTS_A_PAGE = 1_000

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

const asked = z.strictObject({
  client: clientId.optional(),
  /** Only keys that end within this time and have not ended yet, and their clients. */
  expiring: duration('0ms', '4000d').optional(),
  cursor: z
    .string()
    .regex(/^\d{1,9}$/, 'is none of a page')
    .default('0'),
})
const FORM =
  'Ask with ?client=ID, ?expiring=30d, ?cursor=CURSOR of the page before, or none of them.'

export function keysPage({ revision, clients }: Config, query: unknown): Answer {
  const { client, expiring: withinMs, cursor } = checked(query, asked, FORM)
  const nowMs = Date.now()
  const [from, to] = [Number(cursor), Number(cursor) + CLIENTS_A_PAGE]
  const one = client === undefined ? undefined : clients.get(client)
  const some = client === undefined ? clients.slice(from, to) : one === undefined ? [] : [one]
  const shown = Array.from(some, ({ id, plan, limits, keys }): ShownClient => ({
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
        expires: iso(key.expiresAtMs),
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
