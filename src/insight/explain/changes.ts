/** Words for the changes that take more than a line of a finding. */
import { clock, count } from '../format.js'
import type { Config } from '../../config/config.ts'
import { windows, type WindowName } from '../../config/time.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import type { Refusal } from '../../core/rules/refusals.ts'
import type { CallerKnown, Question } from './question.ts'
import type { Walked } from './walk.ts'
import { ordinal } from './words.ts'

/** Says which of the requests after this one, which is not refused, is refused first. */
export function untilRefused({ exchange }: Walked, { atMs }: Question): readonly string[] {
  const { quota, admission } = exchange
  if (quota === undefined || admission === undefined) return []
  const { minute, day } = quota
  const until = (seconds: number): string => clock(seconds * 1000, atMs)
  const nth = (left: number): string => ordinal(left + 1)
  const inMinute = `the ${nth(minute.remaining)} from here before ${until(minute.resetAtSeconds)} is refused (minute)`
  const inDay = `the ${nth(day.remaining)} before ${until(day.resetAtSeconds)} ${minute.remaining < day.remaining ? '' : 'is refused '}(day)`
  return minute.remaining < day.remaining ? [inMinute, inDay] : [inDay]
}

const usedUp = ({ limits }: Caller, { use }: CallerKnown) =>
  windows.filter(({ name, limit }) => use !== undefined && use[name] >= limits[limit])

const resetOf = (clientId: string, wanted: readonly { readonly name: WindowName }[]): string =>
  `tollgate usage reset ${clientId} ${wanted.map(({ name }) => `--${name}`).join(' ')}`

/** owner: names the place of the limits. */
export function quotaChange(
  caller: Caller,
  known: CallerKnown,
  window: WindowName,
  owner: string,
): readonly string[] {
  const all = usedUp(caller, known)
  const wanted = all.length > 1 ? all : windows.filter(({ name }) => name === window)
  const above = wanted.map(
    ({ name, limit }) => `${limit} above ${Math.max(caller.limits[limit], known.use?.[name] ?? 0)}`,
  )
  // The longer window comes first.
  return [`${owner}${above.toReversed().join(' and ')}`, resetOf(caller.clientId, wanted)]
}

/** Lifting the ban is not enough while a window is exhausted. */
export function banChange(caller: Caller, known: CallerKnown): readonly string[] {
  const lift = `tollgate bans lift ${caller.keyId}`
  const all = usedUp(caller, known)
  return [all.length === 0 ? lift : `${lift} and ${resetOf(caller.clientId, all)}`]
}

const sized = {
  bodyBytes: 'a body',
  urlBytes: 'a target',
  headerBytes: 'header fields',
  headerCount: 'header fields',
}

/** Name of the setting in server.limits that caused the refusal; undefined: none did. */
export function limitOf({ code, cause = '' }: Refusal): keyof typeof sized | undefined {
  if (code === 'body_too_large') return 'bodyBytes'
  if (code === 'uri_too_long') return 'urlBytes'
  if (code !== 'headers_too_large') return undefined
  return cause.includes('bytes') ? 'headerBytes' : 'headerCount'
}

export function sizeChange(
  { server }: Config,
  { headers }: Question,
  { cause = '' }: Refusal,
  limit: keyof typeof sized,
): readonly string[] {
  const most = server.limits[limit]
  const lengthAt = headers.findIndex((name) => name.toLowerCase() === 'content-length')
  const own = /\d+/.exec(cause)?.[0] ?? headers[lengthAt + 1]
  const unit = limit === 'headerCount' ? 'fields' : 'bytes'
  return [
    `${sized[limit]} of at most ${count(most)} ${unit}`,
    `server.limits.${limit} above ${Math.max(most, (Number(own) || 0) - 1)}`,
  ]
}
