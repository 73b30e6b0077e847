import { describe, expect, it } from 'vitest'
import { createScratch, type ScratchOptions } from '../../src/gateway/scratch.ts'
import { judge } from '../../src/pipeline/pipeline.ts'
import type { Judged } from '../../src/pipeline/exchange.ts'
import { createCaller } from '../../src/rules/credentials.ts'
import { isRefusal } from '../../src/rules/refusals.ts'
import { readBlocks } from '../support/serving.ts'

const NOON = Date.UTC(2026, 10, 3, 12)
const config = readBlocks(['http://127.0.0.1:1'], {
  plans: `plans: { free: { perMinute: 3, perDay: 5 }, pro: { perMinute: 3, perDay: 5 }, business: { perMinute: 3, perDay: 5 }, enterprise: { custom: true } }`,
  bans: 'bans: { strikes: 2, within: 1m, grace: 1s, duration: 1m }',
})
const limits = { perMinute: 3, perDay: 5 }
const caller = createCaller(
  {
    clientId: 'acme',
    plan: 'pro',
    keyId: 'acme-1',
    limits,
    concurrent: 1,
    keyDigest: undefined,
    expiresAtMs: Infinity,
  },
  true,
)

function open(options: Partial<ScratchOptions> = {}) {
  let atMs = NOON
  const clock = { epochMs: () => atMs, nowMs: () => atMs }
  const scratch = createScratch({ config, clock, ...options })
  const decide = (nowMs: number): string => {
    atMs = nowMs
    const exchange: Judged = {
      route: undefined,
      trace: undefined,
      admission: undefined,
      decidedMs: undefined,
      quota: undefined,
      refusedWindow: undefined,
      degraded: false,
      quotaHeaders: [],
    }
    const decision = judge(scratch.stages, exchange, caller, undefined)
    if (decision instanceof Promise) throw new Error('a scratch answers at once')
    if (!isRefusal(decision)) return 'admitted'
    return `${decision.code} ${decision.window} ${decision.retryAfterSeconds}`
  }
  return { scratch, decide }
}

describe('a scratch policy', () => {
  it('decides by the stages of its configuration, on the time that it is given alone', async () => {
    const { scratch, decide } = open()
    const at = [0, 1, 2, 3, 60_002, 60_003, 60_004, 86_400_000].map((ms) => decide(NOON + ms))
    expect(at).toEqual([
      'admitted',
      'admitted',
      'admitted',
      'rate_limit_exceeded minute 60',
      'admitted',
      'admitted',
      'rate_limit_exceeded day 43140',
      'admitted',
    ])
    await scratch.close()
  })

  it('counts on from the use that it is seeded with', async () => {
    const { scratch, decide } = open()
    scratch.seed.use('acme', limits, { minute: 1, day: 4 })
    scratch.seed.use('another', limits, { minute: 3, day: 5 })
    expect([decide(NOON + 1), decide(NOON + 1)]).toEqual([
      'admitted',
      'rate_limit_exceeded day 43200',
    ])
    await scratch.close()
  })

  it('bans for strikes, and knows the bans that it is seeded with', async () => {
    const { scratch, decide } = open()
    scratch.seed.use('acme', limits, { minute: 3, day: 3 })
    for (const ms of [0, 2_000, 3_000])
      expect(decide(NOON + ms)).toMatch(/^rate_limit_exceeded minute/)
    expect(decide(NOON + 3_000)).toBe('api_key_banned undefined 60')
    await scratch.close()

    const seeded = open()
    seeded.scratch.seed.ban('acme-1', { untilMs: NOON + 5_000, startedMs: NOON - 1, count: 1 })
    const answers = [0, 5_000].map((ms) => seeded.decide(NOON + ms))
    expect(answers).toEqual(['api_key_banned undefined 5', 'admitted'])
    await seeded.scratch.close()
  })

  it('sheds where it is told to', async () => {
    const { scratch, decide } = open({ shed: 'everything' })
    expect(decide(NOON)).toMatch(/^overloaded/)
    await scratch.close()
  })

  it('takes the routes that another policy of the same configuration has compiled', async () => {
    let compiled = 0
    const routes = Object.assign([...config.routes], {
      [Symbol.iterator]() {
        compiled += 1
        return config.routes.values()
      },
    })
    const same = { ...config, routes }
    for (let asked = 0; asked < 3; asked += 1) await open({ config: same }).scratch.close()
    expect(compiled).toBe(1)
    await open({ config: { ...same } }).scratch.close()
    expect(compiled).toBe(2)
  })
})
