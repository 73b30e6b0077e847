/** Webhooks: what a receiver is told of two gateways on one Redis, of which one has workers, and that it is told although it fails at first. */
import { once } from 'node:events'
import { createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { Live } from '../../../src/insight/live/live.ts'
import { Outbox } from '../../../src/insight/notify/outbox.ts'
import { QuotaMarks, type CurrentUse } from '../../../src/insight/notify/quota-marks.ts'
import { post } from '../../../src/insight/notify/webhook.ts'
import { noClaims } from '../../../src/state/memory/home.ts'
import { redisClaims } from '../../../src/state/redis/home.ts'
import type { TallyRow } from '../../../src/core/record/tally.ts'
import { row } from '../live/rows.ts'
import { answer } from '../../support/raw-backend.ts'
import {
  clientsBlock,
  configFile,
  gatewayProcess,
  startRawBackend,
} from '../../process/gateways.ts'
import { sharedRedis } from '../../support/redis-server.ts'
import { listening } from '../../support/listening.ts'
import { redisAt } from '../../support/redis-servers.ts'

const KEY = 'tg_of_notify'
const patience = { timeout: 30_000, interval: 50 }

const LIMIT = 1_000
const BIG_KEY = 'tg_of_notify_big'

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

interface Received {
  readonly id: string
  readonly isSigned: boolean
  readonly status: number
  readonly type: string
  readonly data: Record<string, unknown>
}

/** A receiver of webhooks that looks at each signature itself. fails: how many are answered 503 before the first is taken. */
async function startReceiver({ fails = 0 } = {}) {
  const received: Received[] = []
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const field = (name: string): string => String(request.headers[`webhook-${name}`])
      const status = received.length < fails ? 503 : 204
      const signed = createHmac('sha256', Buffer.alloc(32, 7))
        .update(`${field('id')}.${field('timestamp')}.${body}`)
        .digest('base64')
      const isFresh = Math.abs(Date.now() / 1000 - Number(field('timestamp'))) < 300
      const isSigned = isFresh && field('signature') === `v1,${signed}`
      const { type, data } = JSON.parse(body) as Pick<Received, 'type' | 'data'>
      received.push({ id: field('id'), isSigned, status, type, data })
      response.writeHead(status).end()
    })
  })
  return {
    url: `http://127.0.0.1:${await listening(server)}/hook`,
    received,
    taken: () => received.filter(({ status }) => status === 204),
  }
}

/** Gateways of so many workers, more than one of them on one Redis. */
async function start(workers: readonly number[], fails: number) {
  const receiver = await startReceiver({ fails })
  const backend = await startRawBackend({ respond: () => answer(200, '[]') })
  const { url, prefix } = sharedRedis()
  const clients = clientsBlock([
    { id: 'acme', keys: [KEY], perMinute: 10, perDay: 10 },
    { id: 'big', keys: [BIG_KEY], perMinute: LIMIT, perDay: LIMIT },
  ])
  const store = `store: { redis: "${url}", prefix: ${prefix}, timeout: 110ms }`
  const gateways = await Promise.all(
    workers.map((count) =>
      gatewayProcess(
        configFile(backend.url, {
          server: `server: { listen: "127.0.0.1:0", workers: ${count} }`,
          ...(workers.length > 1 && { store }),
          bans: 'bans: { grace: 1m }',
          clients,
          notify: `notify: { url: "${receiver.url}", secret: "${SECRET}", at: [50%, 80%, 100%], events: [quota, reload] }`,
        }),
      ),
    ),
  )
  /** Of the day. */
  const told = (client: string) =>
    receiver.taken().filter(({ data }) => data['window'] === 'day' && data['client'] === client)
  return { receiver, backend, gateways, told }
}

/** One mark, come to by calls at gateways which hold tokens ahead. */
async function toldOfUse({ backend, gateways, told }: Awaited<ReturnType<typeof start>>) {
  const before = backend.requests.length
  const send = async (upTo: number) => {
    let sent = backend.requests.length - before
    const caller = async (_: unknown, at: number): Promise<void> => {
      while (sent++ < upTo) await gateways[at % gateways.length]?.call(BIG_KEY)
    }
    await Promise.all(Array.from({ length: 12 }, caller))
  }
  const most = () => told('big').filter(({ data }) => data['mark'] === 0.8)
  await send(700)
  // As long as a second takes that is told when all workers have told of it, and the question to those who hold.
  await sleep(3_000)
  expect(most()).toEqual([])
  await send(820)
  await expect.poll(() => most().length, patience).toBe(1)
  const used = Number(most()[0]?.data['used'])
  expect(used).toBeGreaterThanOrEqual(0.8 * LIMIT)
  expect(used).toBeLessThanOrEqual(backend.requests.length - before)
}

describe('webhooks', () => {
  it('tell once of each mark, whichever gateway and worker has seen it, signed, until they are taken, and of what was used, not of what processes hold', async () => {
    const started = await start([1, 2], 2)
    const { receiver, gateways, told } = started
    for (let sent = 0; sent < 40; sent++) await gateways[sent % 2]?.call(KEY)
    await expect.poll(() => told('acme').map(({ data }) => data['mark']), patience).toContain(1)
    expect(receiver.received.slice(0, 2).map(({ status }) => status)).toEqual([503, 503])
    expect(receiver.received.every(({ isSigned }) => isSigned)).toBe(true)
    // What failed comes again under the same id.
    const lost = () => {
      const ids = new Set(receiver.taken().map(({ id }) => id))
      return receiver.received.filter(({ id }) => !ids.has(id))
    }
    await expect.poll(lost, patience).toEqual([])
    expect(told('acme').at(-1)).toMatchObject({ type: 'quota', data: { limit: 10 } })
    await toldOfUse(started)
    await fetch(`${gateways[0]?.adminOrigin}/api/reload`, { method: 'POST' })
    await expect.poll(() => receiver.taken().map(({ type }) => type), patience).toContain('reload')
    // Where a busy machine lets the store be late, both gateways tell, twice rather than never; without claims they always would.
    const tellings = receiver.taken().map(({ id }) => id)
    expect(tellings.length - new Set(tellings).size).toBeLessThan(3)
  })

  it('are claimed for a time, and twice rather than never where the store is away', async () => {
    const { url, prefix, cli } = sharedRedis()
    const store = redisAt(url, { timeoutMs: 1_000 })
    await store.ready()
    const claims = redisClaims(store, prefix)
    expect(await claims.take('a')).toBe('own')
    expect(Number(cli('PTTL', `${prefix}:notified:{a}`))).toBeGreaterThan(0)
    await store.close()
    expect(await claims.take('b')).toBe('own')
  })

  it('name a client once per window and mark, and again in the next window', () => {
    const marks = new QuotaMarks()
    const wanted = [0.8, 1]
    const at = (lastUsedMs: number, used: number) => {
      const windowOf = (lengthMs: number) => ({
        index: Math.floor(lastUsedMs / lengthMs),
        taken: used,
        used,
      })
      const found = { minute: windowOf(60_000), day: windowOf(86_400_000) }
      const rows = [row('acme', { lastUsedMs, minuteUsed: used })]
      marks.see({ at: lastUsedMs / 1_000, rows }, wanted)
      return marks
        .due()
        .flatMap((suspect) => marks.reached(suspect, found, wanted))
        .map(({ mark, untilMs }) => [mark, untilMs])
    }
    expect(at(1_000, 7)).toEqual([])
    expect(at(2_000, 8)).toEqual([[0.8, 60_000]])
    expect(at(3_000, 9)).toEqual([])
    // A client is looked at once in five seconds.
    expect(at(6_000, 10)).toEqual([])
    expect(at(7_000, 10)).toEqual([[1, 60_000]])
    expect(at(61_000, 10)).toEqual([[1, 120_000]])
    expect(at(59_000, 10)).toEqual([])
    expect(at(3_600_000, 10)).toEqual([[1, 3_660_000]])
    // The clock was set back.
    expect(at(61_000, 10)).toEqual([[1, 120_000]])
  })

  it('ask who holds tokens where these decide, at most 50 clients a second, and one again after five', () => {
    const marks = new QuotaMarks()
    const wanted = [0.8, 1]
    const see = (at: number, rows: TallyRow[]) => {
      marks.see({ at, rows }, wanted)
      return marks.due()
    }
    const seenAt = (lastUsedMs: number, client = 'acme') =>
      row(client, { lastUsedMs, admitted: 4, minuteUsed: 9 })
    const minute = (index: number, used: number, taken: number): CurrentUse => ({
      minute: { index, used, taken },
      day: { index: 0, used, taken },
    })
    const [suspect] = see(1, [seenAt(1_000)])
    if (suspect === undefined) throw new Error('nobody is suspected')
    const told = (found: CurrentUse) =>
      marks.reached(suspect, found, wanted).map(({ mark, used, untilMs }) => [mark, used, untilMs])
    for (const [found, isOpen, reached] of [
      // Handed out and not spent: nobody is told of it. Nobody can have spent as much as the mark: no one is asked.
      [minute(0, 6, 9), true, []],
      [minute(0, 6, 7), false, []],
      [minute(0, 8, 8), false, [[0.8, 8, 60_000]]],
      [minute(0, 8, 9), false, []],
      [minute(0, 8, 10), true, []],
      // It is over: what this gateway has counted itself is less than the mark.
      [minute(1, 9, 10), false, []],
    ] as const) {
      expect(marks.isOpen(suspect, found, wanted)).toBe(isOpen)
      expect(told(found)).toEqual(reached)
    }
    expect(see(2, [seenAt(2_000, 'other')])).toHaveLength(1)
    marks.putBack(suspect)
    expect([5, 6].map((at) => see(at, []).length)).toEqual([0, 1])
    const [own] = see(12, [seenAt(12_000, 'own'), seenAt(12_000, 'own')])
    if (own === undefined) throw new Error('nobody is suspected')
    // The rows of one gateway alone are enough where the minute ended before the authority was asked.
    expect(marks.reached(own, minute(1, 0, 0), wanted)).toMatchObject([{ used: 8, mark: 0.8 }])
    // Tokens of a process that has died are asked for three times, and then only once more are handed out.
    const [worn] = see(20, [seenAt(20_000, 'worn')])
    if (worn === undefined) throw new Error('nobody is suspected')
    expect(marks.reached(worn, minute(0, 7, 9), wanted)).toEqual([])
    marks.leaveOpen(worn)
    const again = [25, 30, 35].map((at) => {
      const due = see(at, [seenAt(at * 1_000, 'worn')])
      due.forEach((one) => marks.leaveOpen(one))
      return due.length
    })
    expect(again).toEqual([1, 1, 0])
    const used = { lastUsedMs: 36_000, minuteUsed: 10 }
    expect(see(36, [row('worn', used)])).toHaveLength(1)
    const many = Array.from({ length: 120 }, (_, at) => seenAt(40_000, `client-${at}`))
    expect([see(40, many), see(41, []), see(42, []), see(43, [])].map((due) => due.length)).toEqual(
      [50, 50, 20, 0],
    )
  })

  it('are kept for a receiver that is away up to a bound, and held up by nothing', async () => {
    const posted: string[] = []
    const dropped: string[] = []
    let isAway = true
    const ending = new AbortController()
    const outbox = new Outbox({
      post: ({ id }) => {
        if (!isAway) posted.push(id)
        return Promise.resolve(isAway ? 'ECONNREFUSED' : undefined)
      },
      claims: noClaims,
      ended: ending.signal,
      onFault: () => (isAway = false),
      onDropped: ({ id }) => dropped.push(id),
    })
    for (let number = 0; number < 1_010; number++)
      outbox.add({ id: String(number), type: 'store', timestamp: '', data: {} })
    expect(dropped).toHaveLength(10)
    await expect.poll(() => posted.length, patience).toBe(1_000)
    expect(new Set(posted).size).toBe(1_000)
    ending.abort()
  })

  it('are given up at once with the gateway, and where they are switched off, with no word of it', async () => {
    const receiver = createServer()
    const url = `http://127.0.0.1:${await listening(receiver)}/`
    const notify = { url, secret: SECRET, at: [1], events: [] }
    const live = new Live()
    let isOn = false
    const said: string[] = []
    const outbox = new Outbox({
      post: (notice) => {
        said.push(`post ${notice.id}`)
        return isOn ? post(notify, notice, live.ended) : undefined
      },
      claims: {
        take: () => Promise.resolve('own'),
        done: async (name) => void said.push(`done ${name}`),
      },
      onFault: (cause) => said.push(`fault ${cause}`),
      onDropped: () => undefined,
      ended: live.ended,
    })
    const add = (id: string) =>
      outbox.add({ id, type: 'ban', timestamp: '', data: {} }, { name: id, untilMs: 0 })
    add('off')
    await expect.poll(() => said, patience).toEqual(['post off'])
    isOn = true
    // The receiver takes it, and never answers.
    const asked = once(receiver, 'request')
    add('hung')
    const [, response] = (await asked) as [IncomingMessage, ServerResponse]
    live.end()
    add('late')
    await once(response, 'close')
    expect(said).toEqual(['post off', 'post hung'])
  })
})
