/** Operations on bans: list, impose, lift. */
import { z } from 'zod'
import type { Ban } from '../../insight/api/live.ts'
import type { BanAct } from '../../core/bans/ban-table.ts'
import type { Config } from '../../config/config.ts'
import { duration } from '../../config/scalars.ts'
import { endsAtSeconds } from '../../core/rules/ban-policy.ts'
import { MAX_REASON_LENGTH, type BanRecord } from '../../state/bans.ts'
import { acted, iso, Refused, seen } from '../answers.ts'
import { change, checked, look, readJson, type ApiNeeds, type Call } from '../operation.ts'

const REASON = `is one line of up to ${MAX_REASON_LENGTH} characters`
const wish = z.strictObject({
  for: z.string('is a text such as "1h"').pipe(duration('1s', '400d')),
  // The reason is shown in lines of logs and tables.
  reason: z
    .string(REASON)
    .regex(/^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_C}]+$/u, REASON)
    .max(MAX_REASON_LENGTH, REASON)
    .optional(),
})
const FORM = 'Send {"for":"1h","reason":"TEXT"}, the reason if there is one.'

export const banOperations = [
  look('/api/bans', bansOf),
  change('PUT', 'ban')('/api/bans/{key}', async (needs, call) => {
    const { key } = call.params
    const { for: forMs, reason } = checked(await readJson(call.request), wish, FORM)
    if (!isKnown(needs, key)) throw new Refused('unknown_key')
    return changed(needs, call, needs.bans.impose(key, { forMs, reason }))
  }),
  change('DELETE', 'liftBan')('/api/bans/{key}', (needs, call) =>
    changed(needs, call, needs.bans.lift(call.params.key)),
  ),
]

/** GET /api/bans: current bans, the one that ends first at the top. */
export type Bans = Awaited<ReturnType<typeof bansOf>>

async function bansOf({ bans, reloads: { config } }: ApiNeeds) {
  const listed = await bans.list().catch(() => undefined)
  const away = 'the store is away: these are the bans that this gateway knows of'
  return {
    ...(listed === undefined ? seen('gateway', [away]) : seen('store')),
    asOf: iso(bans.nowMs),
    bans: (listed ?? bans.known()).map(([key, ban]) => shownBan(config, key, ban)),
  }
}

/** PUT /api/bans/KEY_ID {"for":"1h","reason":"…"}: after is the ban. DELETE /api/bans/KEY_ID: after is null. */
export type BanChange = Awaited<ReturnType<typeof changed>>

async function changed(
  needs: ApiNeeds,
  { params: { key }, audit }: Call<{ readonly key: string }>,
  acting: Promise<BanAct | undefined>,
) {
  const done = await acted(acting)
  if (done === undefined) throw new Refused(isKnown(needs, key) ? 'not_banned' : 'unknown_key')
  const { config } = needs.reloads
  const shown = (ban: BanRecord | undefined): Ban | null =>
    ban === undefined ? null : shownBan(config, key, ban)
  const what = { before: shown(done.before), after: shown(done.after) }
  Object.assign(audit, what)
  return { ...seen('store'), asOf: iso(needs.bans.nowMs), key, ...what }
}

/** Ids of JWT callers come from tokens and are in no list. A key that is no longer configured may still be banned. */
function isKnown({ bans, reloads: { config } }: ApiNeeds, key: string): boolean {
  return (
    config.clients.keyById(key) !== undefined ||
    (config.jwt !== undefined && /^jwt:[\x21-\x7e]{1,128}$/.test(key)) ||
    bans.known().some(([banned]) => banned === key)
  )
}

export function shownBan({ clients }: Config, key: string, ban: BanRecord): Ban {
  const ofToken = key.startsWith('jwt:') ? key.slice('jwt:'.length) : null
  return {
    key,
    client: clients.keyById(key)?.client.id ?? ofToken,
    since: iso(ban.startedMs),
    until: iso(1000 * endsAtSeconds(ban)),
    reason: ban.reason ?? null,
    by: ban.by ?? 'strikes',
  }
}
