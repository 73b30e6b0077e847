/** The shape of a client, under `clients` and in client files. */
import { group, list } from './groups.ts'
import { clientId, dateMs, integer, keyId, label, keyDigest } from './scalars.ts'

export const MAX_PER_MINUTE = 1_000_000_000
export const MAX_PER_DAY = 1_000_000_000_000

export const perMinute = integer({ min: 1, max: MAX_PER_MINUTE })
export const perDay = integer({ min: 1, max: MAX_PER_DAY })

export const client = group({
  id: clientId,
  plan: label,
  limits: group({ perMinute, perDay }).optional(),
  keys: list(
    group({
      id: keyId,
      sha256: keyDigest,
      expires: dateMs.optional(),
    }).transform(({ expires, ...key }) => ({ ...key, expiresAtMs: expires })),
  ),
})
