/** Who listens to what, and what a reader costs that does not read; and what the latest decisions of a process hold. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import type { Tick } from '../../../src/insight/api/live.ts'
import { Live } from '../../../src/insight/live/live.ts'
import { Events, eventTypes, type EventType } from '../../../src/insight/live/events.ts'
import type { Exchange } from '../../../src/core/pipeline/exchange.ts'
import { RecentDecisions, type Decision } from '../../../src/core/record/recent.ts'
import { second } from './rows.ts'

const tick = { at: 'now' } as Tick
const decision = (client: string) => ({ client }) as Decision

/** A reader that takes one piece at a time. */
function reader(events: Events, types: readonly EventType[] = eventTypes, client?: string) {
  const gone = new AbortController()
  const pieces = events.read({ types: new Set(types), client }, gone.signal)[Symbol.asyncIterator]()
  return { gone, take: async () => (await pieces.next()).value as string | undefined }
}

describe('events', () => {
  it('reach those who want them, in order', async () => {
    const events = new Events()
    const [all, some] = [reader(events), reader(events, ['tick', 'decision'], 'a')]
    await Promise.all([all.take(), some.take()])
    events.publish('decision', decision('b'))
    events.publish('decision', decision('a'))
    events.publish('reload', { at: 'now', revision: 'r', refused: null })
    events.publish('tick', tick)
    expect((await all.take())?.match(/^event: (\w+)$/gm)).toHaveLength(4)
    expect(await some.take()).toBe(
      'event: decision\ndata: {"client":"a"}\n\nevent: tick\ndata: {"at":"now"}\n\n',
    )
  })

  it('are 50 decisions a second over all processes, and the others are counted', async () => {
    const live = new Live()
    const listener = reader(live.events)
    await listener.take()
    for (const client of ['a', 'b']) {
      const decisions = Array.from({ length: 50 }, () => decision(client))
      live.add(second(7, { requests: 60, decisions }))
    }
    live.close(7)
    const said = (await listener.take())?.match(/"client":"\w"/g)
    expect(said?.toSorted()).toEqual([
      ...Array(25).fill('"client":"a"'),
      ...Array(25).fill('"client":"b"'),
    ])
    expect(live.latest?.untold).toBe(70)
  })

  it('are kept up to 256 Ki characters for a reader that stalls, which is then let go', async () => {
    const events = new Events()
    const [stalled, well] = [reader(events), reader(events)]
    await Promise.all([stalled.take(), well.take()])
    const large = { at: 'now', revision: 'r', refused: 'x'.repeat(10_000) }
    let read = 0
    for (let count = 0; count < 100; count++) {
      events.publish('reload', large)
      read += (await well.take())?.length ?? 0
    }
    expect(read).toBeGreaterThan(1_000_000)
    const [kept, after] = [await stalled.take(), await stalled.take()]
    expect([(kept ?? '').length < 256 * 1024, after]).toEqual([true, undefined])
  })

  it('have room for 32 readers, and end with the gateway', async () => {
    const events = new Events()
    const all = Array.from({ length: 32 }, () => reader(events))
    await Promise.all(all.map(({ take }) => take()))
    expect(events.isFull).toBe(true)
    const next = all.map(({ take }) => take())
    events.end()
    expect(new Set(await Promise.all(next))).toEqual(new Set([undefined]))
  })
})

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const times = { nowMs: 0, totalMs: 1, gatewayMs: 1, backendMs: undefined }
const all = { client: undefined, refused: true, id: undefined }
const refused = (caller: Exchange['caller']): Exchange =>
  ({
    id: '',
    request: {},
    refusal: 'x',
    caller,
    terms: { revision: '' },
  }) as unknown as Exchange
const callerOf = (keyId: string) => ({ clientId: keyId, keyId, plan: 'free' }) as Exchange['caller']

it('the latest decisions since the last look are 50 at most, oldest first, of all kinds', () => {
  const recent = new RecentDecisions(1)
  const note = (at: number): void =>
    recent.note(refused(at % 2 === 0 ? callerOf(`key-${at}`) : undefined), { ...times, nowMs: at })
  for (let at = 0; at < 10; at++) note(at)
  expect(recent.take().map((one) => Date.parse(one.at))).toEqual(
    Array.from({ length: 10 }, (_, at) => at - 1),
  )
  expect(recent.take()).toEqual([])
  for (let at = 0; at < 2_060; at++) note(at)
  const latest = recent.take()
  expect(latest).toHaveLength(50)
  expect(Date.parse(latest.at(-1)?.at ?? '')).toBe(2_058)
  // What has lasted long began before all others, and is not left out for it.
  for (let at = 3_000; at < 3_100; at++) note(at)
  recent.note(refused(callerOf('slow')), { ...times, nowMs: 3_100, totalMs: 3_000 })
  expect(recent.take().at(-1)?.key).toBe('slow')
})

it('the latest decisions keep the refusal of a client whatever comes without a credential, and beside one key that goes on and on', () => {
  const recent = new RecentDecisions(1)
  const keys = Array.from({ length: 40 }, (_, at) => `key-${at}`)
  for (const key of keys) recent.note(refused(callerOf(key)), times)
  for (let at = 0; at < 5_000; at++) recent.note(refused(undefined), times)
  const kept = () => keys.filter((client) => recent.find({ ...all, client }).length > 0).length
  expect(kept()).toBe(40)
  for (let at = 0; at < 5_000; at++) recent.note(refused(callerOf('noisy')), times)
  expect(kept()).toBeGreaterThan(25)
})

it('the latest decisions keep the path of a request, and nothing else of a long target', () => {
  const recent = new RecentDecisions(1)
  const heldBytes = (): number => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = heldBytes()
  for (let at = 0; at < 1_000; at++) {
    const url = Buffer.from(`/v1/a-path-of-some-length/${at}?${'q'.repeat(8_000)}`).toString()
    const path = url.slice(0, url.indexOf('?'))
    const decided = { id: '', request: { url }, path, terms: { revision: '' } }
    recent.note(decided as Exchange, times)
  }
  // The targets are 8 MB.
  expect(heldBytes() - before).toBeLessThan(4_000_000)
  const [{ path } = {}] = recent.find({ client: undefined, refused: false, id: undefined })
  expect(path).toMatch(/^\/v1\/a-path-of-some-length\/\d+$/)
})
