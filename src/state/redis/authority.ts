/** The authority shared by all hosts, and what operators do to its counters: Lua scripts on one hash per client. */
import { readFileSync } from 'node:fs'
import { StoreUnavailable } from '../contract.ts'
import type { CounterStore } from '../counters.ts'
import type { ClientCounters, Window } from '../memory/client-counters.ts'
import type { RedisStore, ScriptReply } from './redis.ts'
import { BEAT_KEPT_MS } from '../memory/authority.ts'
import {
  observedCall,
  type Authority,
  type Beats,
  type CallObserver,
  type Notice,
  type NoticeListener,
  type Statement,
  type TakeReply,
  type TakeRequest,
  type TakeStatus,
  type Totals,
} from '../quota.ts'

const statuses: readonly TakeStatus[] = ['granted', 'short', 'stale', 'lost']
/** Names of notices on the channel, indexed by their number in a reply. */
const notices: readonly (Notice | undefined)[] = [undefined, 'short', 'unknown', 'free', 'reset']
const NOTICE_AT = 12
const REPLY_LENGTH = NOTICE_AT + 1
const COUNTERS_LENGTH = 11
/** Reads a part of a Lua script. The scripts take the time from the server alone. */
const readLua = (name: string) => readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8')
/** Returns a script on a client's hash. */
const scriptOf = (name: 'take' | 'counters') => readLua('client') + readLua(name)

/** KEYS: a hash of all processes. ARGV: process; 1: it is about to end; for how many ms a silent one is kept. */
const beatScript = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[2] == '1' then redis.call('HDEL', KEYS[1], ARGV[1])
else redis.call('HSET', KEYS[1], ARGV[1], now) end
local beats = redis.call('HGETALL', KEYS[1])
for at = 1, #beats, 2 do
  if now - beats[at + 1] > tonumber(ARGV[3]) then redis.call('HDEL', KEYS[1], beats[at]) end
end
redis.call('EXPIRE', KEYS[1], 3600)
return beats
`

/**
 * prefix: namespace of the keys. The store stays open, as it belongs to the caller.
 * take() throws StoreUnavailable at once while the store is known to be away, else rejects with it.
 */
export function createRedisAuthority(
  store: RedisStore,
  prefix: string,
  observe?: CallObserver,
): Authority {
  const take = store.script(scriptOf('take'))
  const beat = store.script(beatScript)
  const channel = reclaimChannel(prefix)
  const noticeChannel = createNoticeChannel(store, prefix)
  const read = (raw: ScriptReply): TakeReply => {
    const reply = parseReply(raw)
    if (reply.notice !== undefined) noticeChannel.published(Number(raw[NOTICE_AT]) > 0)
    return reply
  }

  return {
    take: (request) => {
      const call = take([quotaKey(prefix, request.client)], [...scriptArgs(request), channel])
      return observedCall(call.then(read), observe)
    },
    beat: async ({ process, isLast }) =>
      parseBeats(await beat([`${prefix}:processes`], [process, isLast ? 1 : 0, BEAT_KEPT_MS])),
    onReturn: (listener) => store.onRecovered(listener),
    onNotice: noticeChannel.listen,
    close: async () => undefined,
  }
}

/** Reads and resets the counters. prefix: see createRedisAuthority. */
export function createRedisCounters(store: RedisStore, prefix: string): CounterStore {
  const script = store.script(scriptOf('counters'))
  const run = async (client: string, windows: readonly Window[], channel: string) => {
    const flags = (['minute', 'day'] as const).map((window) => (windows.includes(window) ? 1 : 0))
    const at = numbersOf(
      await script([quotaKey(prefix, client)], [...flags, channel]),
      COUNTERS_LENGTH,
    )
    const of = (minute: number, day: number): ClientCounters => ({
      nowMs: at(0),
      minute: { index: at(1), taken: at(minute), used: at(minute + 1) },
      day: { index: at(4), taken: at(day), used: at(day + 1) },
    })
    return { before: of(2, 5), after: of(7, 9) }
  }
  return {
    attend: ({ id }, windows) => run(id, windows, ''),
    announceReset: async (client) => void (await run(client, [], reclaimChannel(prefix))),
  }
}

/** Receives the notices that the scripts of all processes publish. */
function createNoticeChannel(store: RedisStore, prefix: string) {
  const keyStart = quotaKey(prefix, '').slice(0, -1)
  const listeners: NoticeListener[] = []
  const flows: ((isFlowing: boolean) => void)[] = []
  let isSubscribed = false
  let isPublished = true
  const change = (now: { isSubscribed?: boolean; isPublished?: boolean }): void => {
    ;({ isSubscribed = isSubscribed, isPublished = isPublished } = now)
    for (const onFlow of flows) onFlow(isSubscribed && isPublished)
  }
  const message = (text: string): void => {
    const [name, key = '', by, ...totals] = text.split(' ')
    const notice = notices.find((known) => known === name)
    if (notice === undefined || !key.startsWith(keyStart) || !key.endsWith('}')) return
    for (const listener of listeners)
      listener(clientOf(key, keyStart), notice, by, parseTotals(totals))
  }
  return {
    /** is: whether a script was allowed to publish; where not, the scripts of the other processes may not be either. */
    published(is: boolean): void {
      if (is !== isPublished) change({ isPublished: is })
    },
    listen(listener: NoticeListener, onFlow?: (isFlowing: boolean) => void): void {
      if (onFlow !== undefined) flows.push(onFlow)
      onFlow?.(isSubscribed && isPublished)
      if (listeners.push(listener) > 1) return
      store.subscribe(reclaimChannel(prefix), {
        message,
        subscribed: () => change({ isSubscribed: true }),
        lost: () => change({ isSubscribed: false }),
      })
    },
  }
}

export const reclaimChannel = (prefix: string): string => `${prefix}:q:reclaim`

/**
 * The key of a client's hash; the braces make the client its slot in a cluster.
 * Every other character of the id is written as % and its four hex digits, so that no two ids share a key.
 */
export function quotaKey(prefix: string, client: string): string {
  const plain = client.replaceAll(
    /[^A-Za-z0-9_.-]/g,
    (unit) => `%${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return `${prefix}:q:{${plain}}`
}

/** Returns the client of a key made by quotaKey. */
function clientOf(key: string, keyStart: string): string {
  return key
    .slice(keyStart.length, -1)
    .replaceAll(/%([0-9a-f]{4})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    )
}

function scriptArgs(request: TakeRequest) {
  const { process, sequence, limits, minute, day, need, want, heard = 0, since = 0 } = request
  const stated = ({
    index,
    used,
    held,
    taken = 0,
    returned = 0,
    resetMs = 0,
    fresh = 0,
  }: Statement) => [index, used, held, taken, returned, resetMs, fresh]
  const { perMinute, perDay } = limits
  const windows = [...stated(minute), ...stated(day)]
  return [process, sequence, perMinute, perDay, ...windows, need, want, heard, since]
}

function parseBeats(reply: ScriptReply): Beats {
  const beats = new Map<string, number>()
  for (let at = 0; at < reply.length; at += 2) beats.set(String(reply[at]), Number(reply[at + 1]))
  return beats
}

/** Returns the number at each position of a script's reply. */
function numbersOf(reply: ScriptReply, length: number): (position: number) => number {
  const numbers = Array.isArray(reply) ? reply.map(Number) : []
  if (numbers.length !== length || !numbers.every(Number.isSafeInteger))
    throw new StoreUnavailable('error', 'a script answered something else')
  return (position) => numbers[position] ?? 0
}

function parseReply(reply: ScriptReply): TakeReply {
  const at = numbersOf(reply, REPLY_LENGTH)
  const status = statuses[at(0)]
  if (status === undefined) throw new StoreUnavailable('error', 'unknown status of the take script')
  return {
    status,
    nowMs: at(1),
    minute: { index: at(2), held: at(3), taken: at(4), used: at(5), resetMs: at(6) },
    day: { index: at(7), held: at(8), taken: at(9), used: at(10), resetMs: at(11) },
    notice: notices[Math.abs(at(NOTICE_AT))],
  }
}

/** Returns undefined where there are none, as after a reset. */
function parseTotals(texts: readonly string[]): Totals | undefined {
  const numbers = texts.map(Number)
  if (numbers.length !== 6 || !numbers.every(Number.isSafeInteger)) return undefined
  const of = (at: number): Totals['minute'] => {
    const [index = 0, taken = 0, held = 0] = numbers.slice(at)
    return { index, taken, held }
  }
  return { minute: of(0), day: of(3) }
}
