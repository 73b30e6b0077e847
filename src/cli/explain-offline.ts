/** `tollgate explain --config FILE "GET /v1/pets"`: explains the answer to a request without any gateway. */
import type { Config } from '../config/config.ts'
import { readSettingLocations } from '../config/clients/setting-locations.ts'
import type { FindLocations } from '../insight/explain/explanation.ts'
import { explain } from '../server/gateway/explaining.ts'
import type { Asking } from './operator/asking.ts'
import { headerPairs, printExplanation, requestLine } from './operator/explain.ts'
import { isJwtForm, readBearer } from '../core/rules/credentials.ts'
import { isRefusal } from '../core/rules/refusals.ts'
import { Fault, usageFault } from './terminal/fault.ts'
import { OK, type Edge } from './edge.ts'
import { loadUsableConfig } from './usable-config.ts'

interface OfflineOptions extends Asking {
  readonly what: string
  readonly config: string
  readonly key?: string
  readonly header?: readonly string[]
  /** Written as minute=N,day=N. */
  readonly used?: string
  readonly at?: string
}

export async function explainOfflineCommand(edge: Edge, options: OfflineOptions): Promise<number> {
  const { what, config: file, key, header = [], used, at } = options
  const asked = requestLine(what)
  if (asked === undefined) throw usageFault('--config takes a request such as "GET /v1/pets"')
  const atMs = at === undefined ? Date.now() : Date.parse(at)
  if (Number.isNaN(atMs)) throw usageFault(`--at ${at}: write a time as 2026-11-03T14:07:31Z`)
  const use = { ...useOf(used), isAssumed: true }
  const config = await loadUsableConfig(file, edge.env)
  if (key !== undefined) checkKey(config, key, file)
  const headers = headerPairs(header)
  checkCredentials(config, headers)
  const question = { ...asked, headers: headers.flat(), keyId: key, atMs }
  const known = { ofCaller: () => ({ use }) }
  const findLocations = locationsIn(file, edge)
  printExplanation(edge, options, await explain(config, question, known, { findLocations }), atMs)
  return OK
}

/** Reads in this thread, as no request waits meanwhile. */
export const locationsIn =
  (file: string, { env }: Pick<Edge, 'env'>): FindLocations =>
  (asked) =>
    Promise.resolve(readSettingLocations(file, env, asked))

function useOf(text = ''): { minute: number; day: number } {
  const use = { minute: 0, day: 0 }
  for (const part of text === '' ? [] : text.split(',')) {
    const [, window, count] = /^(minute|day)=(\d{1,15})$/.exec(part) ?? []
    if (window === undefined) throw usageFault(`--used ${text}: write it as minute=N,day=N`)
    use[window === 'day' ? 'day' : 'minute'] = Number(count)
  }
  // Use of the minute is also use of the day.
  return { ...use, day: Math.max(use.minute, use.day) }
}

function checkCredentials({ jwt }: Config, headers: readonly (readonly [string, string])[]): void {
  const isToken = ([name, value]: readonly [string, string]): boolean => {
    const bearer = readBearer(value, 1)
    return name.toLowerCase() === 'authorization' && !isRefusal(bearer) && isJwtForm(bearer.token)
  }
  if (jwt !== undefined && headers.some(isToken))
    throw usageFault('a signed token is read by a running gateway alone: leave --config out')
}

function checkKey({ clients }: Config, key: string, file: string): void {
  if (clients.keyById(key) !== undefined) return
  throw new Fault('unknown_key', `no key ${key} is in ${file}`, {
    reason: 'the configuration and its client files have no key with this id',
    remedy: `list them: tollgate keys list --config ${file}`,
  })
}
