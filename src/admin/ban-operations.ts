/** Operations on bans: list, impose, lift. */
import type { Ban, BanChange, Bans } from '../insight/api/state.ts'
import type { BanAct, OperatorBans } from '../core/bans/operator-bans.ts'
import type { Config } from '../config/config.ts'
import { duration, faultIn } from '../config/scalars.ts'
import { endsAtSeconds, MAX_IMPOSED_MS } from '../core/rules/ban-policy.ts'
import { MAX_REASON_LENGTH, type BanRecord } from '../state/bans.ts'
import { fault, invalidRequest, iso, json, notDone, type Answer } from './answers.ts'
import type { ConfigNeeds } from './config-operations.ts'
import type { Call, Changed } from './operation.ts'
import { isAnswer, isRecord, readJson } from './read-json.ts'

export interface BanNeeds extends Pick<ConfigNeeds, 'reloads'> {
  readonly bans: Pick<OperatorBans, 'list' | 'known' | 'impose' | 'lift' | 'nowMs'>
}

type BanCall = Call<{ readonly key: string }>

export async function getBans({ bans, reloads: { config } }: BanNeeds): Promise<Answer> {
  const shown = (found: Awaited<ReturnType<OperatorBans['list']>>): readonly Ban[] =>
    found.map(([key, ban]) => shownBan(config, key, ban))
  const asOf = (): string => iso(bans.nowMs)
  let answer: Bans
  try {
    const listed = shown(await bans.list())
    answer = { asOf: asOf(), scope: 'store', bans: listed }
  } catch {
    const missing = ['the store is away: these are the bans that this gateway knows of']
    answer = { asOf: asOf(), scope: 'gateway', missing, bans: shown(bans.known()) }
  }
  return json(200, answer)
}

export async function imposeBan(needs: BanNeeds, { request, params }: BanCall): Promise<Changed> {
  const { key } = params
  const body = await readJson(request)
  if (isAnswer(body)) return refused(body)
  const wish = wishOf(body)
  if (typeof wish === 'string') return refused(malformed(wish))
  if (!isKnown(needs, key)) return refused(unknownKey)
  return act(needs, key, needs.bans.impose(key, wish))
}

export async function liftBan(needs: BanNeeds, { params: { key } }: BanCall): Promise<Changed> {
  return act(needs, key, needs.bans.lift(key))
}

async function act(
  needs: BanNeeds,
  key: string,
  acting: Promise<BanAct | undefined>,
): Promise<Changed> {
  let done: BanAct | undefined
  try {
    done = await acting
  } catch (error) {
    return refused(notDone(error))
  }
  if (done === undefined) return refused(isKnown(needs, key) ? notBanned : unknownKey)
  const { config } = needs.reloads
  const shown = (ban: BanRecord | undefined): Ban | null =>
    ban === undefined ? null : shownBan(config, key, ban)
  const [before, after] = [shown(done.before), shown(done.after)]
  const asOf = iso(needs.bans.nowMs)
  const answer: BanChange = { asOf, scope: 'store', key, before, after }
  return { answer: json(200, answer), audit: { before, after } }
}

/** Ids of JWT callers come from tokens and are in no list. A key that is no longer configured may still be banned. */
function isKnown({ bans, reloads: { config } }: BanNeeds, key: string): boolean {
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

const length = duration({ min: 1_000, max: MAX_IMPOSED_MS })

/** Returns a text if the body is malformed: what is wrong with it. */
function wishOf(body: unknown): { forMs: number; reason: string | undefined } | string {
  if (!isRecord(body)) return ''
  const { for: lasts, reason, ...unknown } = body
  if (Object.keys(unknown).length > 0 || typeof lasts !== 'string') return ''
  const forMs = length.safeParse(lasts).data
  if (forMs === undefined) return ` "for" ${faultIn(length, lasts)}.`
  if (reason === undefined) return { forMs, reason }
  // The reason is shown in lines of logs and tables.
  const isLine =
    typeof reason === 'string' && /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_C}]+$/u.test(reason)
  return isLine && reason.length <= MAX_REASON_LENGTH
    ? { forMs, reason }
    : ` "reason" is one line of up to ${MAX_REASON_LENGTH} characters.`
}

const refused = (answer: Answer): Changed => ({ answer, audit: {} })

const malformed = (why: string): Answer =>
  invalidRequest(`Send {"for":"1h","reason":"TEXT"}, the reason if there is one.${why}`)
const unknownKey = fault({
  status: 404,
  code: 'unknown_key',
  message: 'No client of the configuration has a key of this id.',
})
const notBanned = fault({ status: 404, code: 'not_banned', message: 'This key is not banned.' })
