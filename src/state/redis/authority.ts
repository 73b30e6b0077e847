/** The authority shared by all hosts, and what operators do to its counters: Lua scripts on one hash per client. */
import { readFileSync } from 'node:fs'
import { perWindow, windowNames, windows } from '../../config/time.ts'
import type { PerWindow, WindowName } from '../../config/time.ts'
import { StoreUnavailable } from '../contract.ts'
import type { ClientCounters, CounterStore } from '../counters.ts'
import type { ScriptReply } from './connections.ts'
import type { RedisStore } from './redis.ts'
import { createRedisBeat } from './signs-of-life.ts'
import type { Authority, Notice, TakeReply, TakeRequest, TakeStatus, Totals } from '../quota.ts'

const statuses: readonly TakeStatus[] = ['granted', 'short', 'stale', 'lost']
/** Names of notices on the channel, indexed by their number in a reply. */
const notices: readonly (Notice | undefined)[] = [undefined, 'short', 'unknown', 'free', 'reset']
const NOTICE_AT = 2
/** Reads a part of a Lua script. The scripts take the time from the server alone. */
const readLua = (name: string) => readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8')
/** Repeats a text for each window, with its name in the place of the word window. */
const eachWindow = (text: string): string[] =>
  windowNames.map((name) => {
    const capital = name.charAt(0).toUpperCase() + name.slice(1)
    return text.replaceAll('window', name).replaceAll('Window', capital)
  })
const ofAll = (text: string): string => eachWindow(text).join('')
const positions = windows.map(
  ({ name, lengthMs }, at) =>
    `local ${name}Ms, ${name}Number, ${name}Field, ${name}Part, ${name}Arguments = ${lengthMs}, ${at + 1}, ${7 + 4 * at}, ${4 + 2 * at}, ${8 + 8 * at}`,
)
/** Formats of a hash's fields and of a notice that depend on the list of windows, and positions of a window in lists. */
const constants = `
local UNSTATED, UNSTATED_FORMAT = '^(%d+)${ofAll(':(%d+)')}$', '%.0f${ofAll(':%.0f')}'
local RECORD, RECORD_FORMAT = '^(%d+):(%d):(%d+)${ofAll(':(%d+):(%d+)')}:?(%d*)$', '%.0f:%d:%.0f${ofAll(':%.0f:%.0f')}:%.0f'
local NOTICE_FORMAT = '%s %s %s${ofAll(' %.0f %.0f %.0f')}'
${positions.join('\n')}
`
const scriptOf = (name: 'take' | 'counters') =>
  constants +
  `${readLua('client')}${readLua(name)}`
    .replaceAll(/^ *--each\n([^]*?)^ *--end\n/gm, (_, lines: string) => ofAll(lines))
    .replaceAll(/\beach(\((?:[^()]|\([^()]*\))*\))/g, (_, list: string) =>
      eachWindow(list.slice(1, -1)).join(', '),
    )

export function createRedisAuthority(store: RedisStore, prefix: string): Authority {
  const take = store.script(scriptOf('take'))
  const channel = reclaimChannel(prefix)
  const noticeChannel = createNoticeChannel(store, prefix)
  const read = (raw: ScriptReply): TakeReply => {
    const reply = parseReply(raw)
    if (reply.notice !== undefined) noticeChannel.published(Number(raw[NOTICE_AT]) > 0)
    return reply
  }

  return {
    take: (request) =>
      take([quotaKey(prefix, request.client)], scriptArgs(request, channel)).then(read),
    beat: createRedisBeat(store, prefix),
    onReturn: (listener) => store.onRecovered(listener),
    onNotice: noticeChannel.listen,
  }
}

export function createRedisCounters(store: RedisStore, prefix: string): CounterStore {
  const script = store.script(scriptOf('counters'))
  const run = async (client: string, reset: readonly WindowName[], channel: string) => {
    const flags = windowNames.map((name) => (reset.includes(name) ? 1 : 0))
    const reply = await script([quotaKey(prefix, client)], [channel, ...flags])
    const at = numbersOf(reply, 1 + 6 * windows.length)
    const counters = (start: number): ClientCounters => ({
      nowMs: at(0),
      ...byWindow(start, 3, (of) => ({ index: at(of), taken: at(of + 1), used: at(of + 2) })),
    })
    return { before: counters(1), after: counters(1 + 3 * windows.length) }
  }
  return {
    attend: ({ id }, windows) => run(id, windows, ''),
    announceReset: async (client) => void (await run(client, [], reclaimChannel(prefix))),
  }
}

/** Receives the notices that the scripts of all processes publish. */
function createNoticeChannel(store: RedisStore, prefix: string) {
  const keyStart = quotaKey(prefix, '').slice(0, -1)
  const receivers: Parameters<NonNullable<Authority['onNotice']>>[] = []
  const now = { isSubscribed: false, isPublished: true }
  const isFlowing = (): boolean => now.isSubscribed && now.isPublished
  const change = (changed: Partial<typeof now>): void => {
    Object.assign(now, changed)
    for (const [, onFlow] of receivers) onFlow?.(isFlowing())
  }
  const message = (text: string): void => {
    const [name, key = '', by, ...totals] = text.split(' ')
    const notice = notices.find((known) => known === name)
    if (notice === undefined || !key.startsWith(keyStart) || !key.endsWith('}')) return
    for (const [listener] of receivers)
      listener(clientOf(key, keyStart), notice, by, parseTotals(totals))
  }
  return {
    /** is: whether a script was allowed to publish; where not, the scripts of the other processes may not be either. */
    published(is: boolean): void {
      if (is !== now.isPublished) change({ isPublished: is })
    },
    listen(...receiver: (typeof receivers)[number]): void {
      receiver[1]?.(isFlowing())
      if (receivers.push(receiver) > 1) return
      store.subscribe(reclaimChannel(prefix), {
        message,
        subscribed: () => change({ isSubscribed: true }),
        lost: () => change({ isSubscribed: false }),
      })
    },
  }
}

export const reclaimChannel = (prefix: string): string => `${prefix}:q:reclaim`

/** The braces make the client its slot in a cluster. Other characters become % and four hex digits: no two ids share a key. */
export function quotaKey(prefix: string, client: string): string {
  const plain = client.replaceAll(
    /[^A-Za-z0-9_.-]/g,
    (unit) => `%${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return `${prefix}:q:{${plain}}`
}

function clientOf(key: string, keyStart: string): string {
  return key
    .slice(keyStart.length, -1)
    .replaceAll(/%([0-9a-f]{4})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    )
}

function scriptArgs(request: TakeRequest, channel: string) {
  const { process, sequence, limits, need, want, heard = 0, since = 0 } = request
  const stated = windows.flatMap(({ name, limit }) => {
    const { index, used, held, taken = 0, returned = 0, resetMs = 0, fresh = 0 } = request[name]
    return [limits[limit], index, used, held, taken, returned, resetMs, fresh]
  })
  return [process, sequence, need, want, heard, since, channel, ...stated]
}

/** Returns the number at each position of a script's reply. By a reply that is something else, limits would be wrong without an error. */
function numbersOf(reply: ScriptReply, length: number): (position: number) => number {
  const numbers = reply.map(Number)
  if (numbers.length !== length || !numbers.every(Number.isSafeInteger))
    throw new StoreUnavailable('error', 'a script answered something else')
  return (position) => numbers[position] ?? 0
}

/** Reads the numbers of each window: `width` of them, one window after the other. */
const byWindow = <Value>(
  start: number,
  width: number,
  valueAt: (position: number) => Value,
): PerWindow<Value> => perWindow((_, number) => valueAt(start + number * width))

function parseReply(reply: ScriptReply): TakeReply {
  const at = numbersOf(reply, NOTICE_AT + 1 + 5 * windows.length)
  const status = statuses[at(0)]
  if (status === undefined) throw new StoreUnavailable('error', 'unknown status of the take script')
  const replies = byWindow(NOTICE_AT + 1, 5, (of) => ({
    index: at(of),
    held: at(of + 1),
    taken: at(of + 2),
    used: at(of + 3),
    resetMs: at(of + 4),
  }))
  return { status, nowMs: at(1), notice: notices[Math.abs(at(NOTICE_AT))], ...replies }
}

/** Returns undefined where there are none, as after a reset. */
function parseTotals(texts: readonly string[]): Totals | undefined {
  const numbers = texts.map(Number)
  if (numbers.length !== 3 * windows.length || !numbers.every(Number.isSafeInteger))
    return undefined
  return byWindow(0, 3, (of) => {
    const [index = 0, taken = 0, held = 0] = numbers.slice(of)
    return { index, taken, held }
  })
}
