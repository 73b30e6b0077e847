/**
 * Writes an access log of one UTC day as the gateway's own writer makes it, the same for the same seed:
 *
 *     node bench/replay/generate-log.ts --lines 10000000 --out access.log [--config gateway.json] [--seed 1]
 *
 * 812 clients of four plans, few of them with most of the requests, more by day than by night, with bursts that run
 * into the limits and on into bans. What was refused is only what a log may say: the gateway's own rules decide in a replay.
 */
import { createHash } from 'node:crypto'
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { accessFields, type AccessRecord } from '../../src/core/record/access-record.ts'
import type { RefusalCode } from '../../src/core/rules/refusals.ts'
import { DAY_MS, MINUTE_MS } from '../../src/config/time.ts'

const plans = {
  free: { clients: 500, perMinute: 60, perDay: 1_000 },
  pro: { clients: 240, perMinute: 300, perDay: 10_000 },
  business: { clients: 60, perMinute: 1_000, perDay: 100_000 },
  enterprise: { clients: 12, perMinute: 20_000, perDay: 5_000_000 },
}
const FIRST_DAY_MS = Date.UTC(2026, 10, 2)
const STRIKES = 20
const BAN_MS = 10 * MINUTE_MS
/** Every so many requests another client has a burst, which is a fifth of them. */
const BURST_REQUESTS = 4_000
const BURST_SHARE = 0.2
/** No answer takes longer; lines stand in the order of their answers. */
const LONGEST_MS = 4_096

const clients = Object.entries(plans).flatMap(([plan, { clients: count, ...limits }]) =>
  Array.from({ length: count }, (_, at) => ({
    caller: { clientId: `${plan}-${at}`, keyId: `${plan}-${at}-1`, plan },
    limits,
    /** The first of a plan ask most. */
    weight: limits.perMinute / (at + 2),
    minute: { index: -1, used: 0 },
    day: { index: -1, used: 0 },
    strikes: 0,
    bannedUntilMs: 0,
  })),
)
type Client = (typeof clients)[number]

/** mulberry32: the same numbers on every machine. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

function createPick(random: () => number): () => Client {
  let sum = 0
  const sums = clients.map(({ weight }) => (sum += weight))
  return () => {
    const wanted = random() * sum
    let [low, high] = [0, sums.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((sums[middle] ?? 0) <= wanted) low = middle + 1
      else high = middle
    }
    return clients[low] as Client
  }
}

function refusalOf(client: Client, nowMs: number): RefusalCode | undefined {
  if (nowMs < client.bannedUntilMs) return 'api_key_banned'
  const { minute, day, limits } = client
  for (const [window, lengthMs] of [[minute, MINUTE_MS] as const, [day, DAY_MS] as const]) {
    const index = Math.floor(nowMs / lengthMs)
    if (index === window.index) continue
    Object.assign(window, { index, used: 0 })
    client.strikes = 0
  }
  if (minute.used < limits.perMinute && day.used < limits.perDay) {
    minute.used++
    day.used++
    return undefined
  }
  if (++client.strikes > STRIKES) client.bannedUntilMs = nowMs + BAN_MS
  return 'rate_limit_exceeded'
}

function lineOf(client: Client, at: number, decidedMs: number, random: () => number) {
  const refusal = refusalOf(client, decidedMs)
  const backendMs =
    refusal === undefined ? Math.min(LONGEST_MS - 2, 8 / (random() + 0.004)) : undefined
  const totalMs = (backendMs ?? 0) + 0.1 + random() / 2
  const nowMs = Math.floor(decidedMs + totalMs)
  const { limits, minute, day } = client
  const view = (limit: number, used: number) => ({
    limit,
    remaining: limit - used,
    resetAtSeconds: 0,
    resetAfterSeconds: 1,
  })
  const record: AccessRecord = {
    id: `mhh2k1zk-5f1c9ae2b7d80346-${at.toString(36)}`,
    process: undefined,
    terms: { revision: '3f9c21' },
    clientAddress: `10.0.${at & 7}.${at & 255}`,
    caller: client.caller,
    refusedCaller: undefined,
    request: { method: 'GET' },
    receivedBytes: 0,
    path: `/v1/pets/${Math.floor(random() * 1e4)}`,
    target: undefined,
    route: { name: 'getPet' },
    quota:
      refusal === 'api_key_banned'
        ? undefined
        : { minute: view(limits.perMinute, minute.used), day: view(limits.perDay, day.used) },
    decidedMs,
    refundedMs: undefined,
    refusedWindow: undefined,
    backend: refusal === undefined ? `10.0.0.${1 + (at & 3)}:3000` : undefined,
    retried: undefined,
    degraded: false,
    waitedMs: 0,
    responseBytes: 512,
    status: refusal === undefined ? 200 : 429,
    refusal,
    cause: undefined,
    tunnelEnd: undefined,
    trace: undefined,
  }
  const fields = JSON.stringify(accessFields(record, { nowMs, totalMs, backendMs })).slice(1)
  return { nowMs, text: `{"level":"info","time":"${new Date(nowMs).toISOString()}",${fields}\n` }
}

function generate({ lines, seed, out }: { lines: number; seed: number; out: string }): void {
  const random = createRandom(seed)
  const pick = createPick(random)
  const file = openSync(out, 'w')
  const waiting = Array.from({ length: 2 * LONGEST_MS }, () => '')
  let block = ''
  let writtenMs = FIRST_DAY_MS
  const writeUntil = (endMs: number): void => {
    for (; writtenMs < endMs; writtenMs++) {
      const slot = writtenMs % waiting.length
      block += waiting[slot]
      waiting[slot] = ''
    }
    if (block.length < 2 ** 20) return
    writeSync(file, block)
    block = ''
  }
  let atMs = FIRST_DAY_MS
  let burst = pick()
  for (let at = 0; at < lines; at++) {
    // From a fifth of the mean at night to nearly twice of it by day.
    const hours = (24 * (atMs - FIRST_DAY_MS)) / DAY_MS
    const share = 1 - 0.8 * Math.cos((2 * Math.PI * hours) / 24)
    atMs += (-Math.log(1 - random()) * DAY_MS) / lines / share
    if (at % BURST_REQUESTS === 0) burst = clients[Math.floor(random() * clients.length)] as Client
    const client = random() < BURST_SHARE ? burst : pick()
    const line = lineOf(client, at, Math.round(atMs * 1000) / 1000, random)
    writeUntil(Math.floor(atMs))
    waiting[line.nowMs % waiting.length] += line.text
  }
  writeUntil(writtenMs + waiting.length)
  writeSync(file, block)
  closeSync(file)
}

const { values } = parseArgs({
  options: {
    lines: { type: 'string', default: '1000000' },
    out: { type: 'string', default: 'access.log' },
    seed: { type: 'string', default: '1' },
    config: { type: 'string' },
  },
})
generate({ lines: Number(values.lines), seed: Number(values.seed), out: values.out })
if (values.config !== undefined)
  writeFileSync(values.config, JSON.stringify(configOf(), undefined, 2))

/** Under which the log could have been written. */
function configOf() {
  const limits = Object.entries(plans).map(([plan, { perMinute, perDay }]) => [
    plan,
    { perMinute, perDay },
  ])
  return {
    server: { listen: '127.0.0.1:0', basePath: '/v1' },
    upstream: { urls: ['http://127.0.0.1:9'] },
    bans: { strikes: STRIKES, duration: `${BAN_MS / MINUTE_MS}m` },
    routes: [{ name: 'getPet', match: 'GET /pets/{petId}' }],
    plans: Object.fromEntries(limits) as object,
    clients: clients.map(({ caller }) => ({
      id: caller.clientId,
      plan: caller.plan,
      keys: [{ id: caller.keyId, sha256: createHash('sha256').update(caller.keyId).digest('hex') }],
    })),
  }
}
