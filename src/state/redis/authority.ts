/** The authority shared by all hosts: one Lua script on one hash per client. */
import { readFileSync } from 'node:fs'
import { StoreUnavailable } from '../store-unavailable.ts'
import type { RedisStore, ScriptReply } from './store.ts'
import { observedCall, type CallObserver } from '../observer.ts'
import { BEAT_KEPT_MS } from '../memory/authority.ts'
import type {
  Authority,
  Beats,
  Notice,
  NoticeListener,
  Statement,
  TakeReply,
  TakeRequest,
  TakeStatus,
  Totals,
} from '../quota.ts'

const statuses: readonly TakeStatus[] = ['granted', 'short', 'stale', 'lost']
/** Notices, indexed by their number in a reply; the names are those on the channel. */
const notices: readonly (Notice | undefined)[] = [undefined, 'short', 'unknown', 'free', 'reset']
const NOTICE_AT = 12
const REPLY_LENGTH = NOTICE_AT + 1
/** Reads a Lua script. The scripts take the time from the server alone. */
const scriptOf = (name: string) => readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8')

/**
 * store: belongs to the caller; close() leaves it open.
 * prefix: namespace of the keys.
 * take() throws StoreUnavailable at once while the store is known to be away, else rejects with it.
 */
export function createRedisAuthority({
  store,
  prefix,
  observe,
}: {
  store: RedisStore
  prefix: string
  observe?: CallObserver
}): Authority {
  const script = store.script({ name: 'tollgateTake', text: scriptOf('take'), keyCount: 1 })
  const beating = store.script({ name: 'tollgateBeat', text: scriptOf('beat'), keyCount: 1 })
  // Thrown for every request of an outage. It is made once, since a stack trace costs more than the decision.
  const away = new StoreUnavailable('error')
  const channel = reclaimChannel(prefix)
  const noticeChannel = createNoticeChannel(store, prefix)
  const read = (raw: ScriptReply): TakeReply => {
    const reply = parseReply(raw)
    if (reply.notice !== undefined) noticeChannel.published(Number(raw[NOTICE_AT]) > 0)
    return reply
  }

  return {
    take: (request) => {
      if (!store.available) throw away
      const keys = [quotaKey(prefix, request.client)]
      const call = script.run({ keys, args: [...scriptArgs(request), channel] })
      return observedCall(call, read, observe)
    },
    beat: async ({ process, isLast }) =>
      parseBeats(
        await beating.run({
          keys: [`${prefix}:processes`],
          args: [process, isLast ? 1 : 0, BEAT_KEPT_MS],
        }),
      ),
    onReturn: (listener) => store.onRecovered(listener),
    onNotice: noticeChannel.listen,
    close: async () => undefined,
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

function parseReply(reply: ScriptReply): TakeReply {
  const numbers = Array.isArray(reply) ? reply.map(Number) : []
  if (numbers.length !== REPLY_LENGTH || !numbers.every(Number.isSafeInteger))
    throw new StoreUnavailable('error', 'the take script answered something else')
  const at = (position: number): number => numbers[position] ?? 0
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
