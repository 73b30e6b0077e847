import { assert, integer, nat, property } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isChosen, lifecycleHeaders, passesFromMs } from '../../../src/core/rules/deprecation.ts'
import { stageOf, withdrawalOf } from '../../../src/core/rules/deprecation.ts'
import { fields } from '../../support/words.ts'

const minute = 60_000
const at = (text: string): number => Date.parse(`2030-05-01T${text}Z`)
const brownout = (from: string, to: string, share: number) => {
  return { fromMs: at(from), toMs: at(to), share }
}
const clients = Array.from({ length: 500 }, (_, index) => `client-${index}`)
const chosenOf = (atMs: number, share: number): string[] =>
  clients.filter((client) => isChosen(client, atMs, share))

describe('the clients of a brownout', () => {
  it.each([0.01, 0.2, 0.5, 0.99, 1])(
    'are the share of %d, in each minute and over time',
    (share) => {
      let all = 0
      for (let hour = 0; hour < 24; hour++) {
        const chosen = chosenOf(hour * 60 * minute, share).length
        all += chosen
        // Five standard deviations.
        const spread = 5 * Math.sqrt(clients.length * share * (1 - share))
        expect(Math.abs(chosen - clients.length * share)).toBeLessThanOrEqual(spread)
      }
      const spread = 5 * Math.sqrt(24 * clients.length * share * (1 - share))
      expect(Math.abs(all - 24 * clients.length * share)).toBeLessThanOrEqual(spread)
    },
  )

  it('are the same for all of a minute, and others in the next', () => {
    const [first, last, next] = [at('10:07:00'), at('10:07:59.999'), at('10:08:00')]
    expect(chosenOf(last, 0.2)).toEqual(chosenOf(first, 0.2))
    const both = chosenOf(first, 0.2).filter((client) => isChosen(client, next, 0.2))
    expect(both.length).toBeLessThan(50)
    // None is spared, none has it all the time.
    const minutes = Array.from({ length: 300 }, (_, index) => index * minute)
    const hits = clients.map((client) => minutes.filter((ms) => isChosen(client, ms, 0.2)).length)
    expect(Math.min(...hits)).toBeGreaterThan(20)
    expect(Math.max(...hits)).toBeLessThan(110)
  })
})

describe('a deprecated operation', () => {
  const sunsetMs = at('12:00:00')
  const given = { sinceMs: 0, sunsetMs, successor: undefined, link: undefined }
  const gone = withdrawalOf({
    ...given,
    afterSunset: 'gone',
    brownouts: [brownout('11:00:30', '11:02:00', 1), brownout('10:00:00', '10:30:00', 0.5)],
  })
  if (gone === undefined) throw new Error('nothing is withdrawn')

  it('that is only announced refuses nobody', () => {
    const announced = { ...given, afterSunset: 'announce' } as const
    expect(withdrawalOf({ ...announced, brownouts: [] })).toBeUndefined()
    const later = withdrawalOf({ ...announced, brownouts: [brownout('13:00:00', '14:00:00', 1)] })
    expect(later && passesFromMs(later, 'a', at('12:30:00'))).toBe(at('12:30:00'))
    expect(later && passesFromMs(later, 'a', at('13:30:00'))).toBe(at('14:00:00'))
  })

  it.each([
    ['09:59:59.999', 'announce', '09:59:59.999'],
    ['11:00:29.999', 'announce', '11:00:29.999'],
    ['11:00:30', 'brownout', '11:02:00'],
    ['11:01:59.999', 'brownout', '11:02:00'],
    ['11:02:00', 'announce', '11:02:00'],
    ['11:59:59.999', 'announce', '11:59:59.999'],
  ])('at %s is in stage %s and lets through at %s', (now, stage, passes) => {
    expect(stageOf(gone, at(now))).toBe(stage)
    expect(passesFromMs(gone, 'a', at(now))).toBe(at(passes))
  })

  it('is gone at its sunset, for ever', () => {
    for (const nowMs of [sunsetMs, sunsetMs * 2]) {
      expect(stageOf(gone, nowMs)).toBe('gone')
      expect(passesFromMs(gone, 'a', nowMs)).toBe(Infinity)
    }
  })

  it('waits for no whole minute where the brownout ends before', () => {
    const part = { goneMs: undefined, brownouts: [brownout('10:00:10', '10:00:40', 0.5)] }
    const waits = clients.map((client) => passesFromMs(part, client, at('10:00:20')))
    expect(new Set(waits)).toEqual(new Set([at('10:00:20'), at('10:00:40')]))
  })

  it('lets through whoever waits for as long as it is told, and not before', () => {
    const half = {
      goneMs: undefined,
      // The second begins as the first ends.
      brownouts: [brownout('10:00:10', '10:20:20', 0.8), brownout('10:20:20', '10:30:00', 1)],
    }
    assert(
      property(nat(2_000_000), integer({ min: 0, max: 499 }), (afterMs, index) => {
        const [nowMs, client] = [at('09:59:00') + afterMs, `client-${index}`]
        const fromMs = passesFromMs(half, client, nowMs)
        expect(passesFromMs(half, client, fromMs)).toBe(fromMs)
        expect(fromMs).toBeLessThanOrEqual(Math.max(nowMs, at('10:30:00')))
        const early = Array.from({ length: (fromMs - nowMs) / 9_970 }, (_, nth) => nth * 9_970)
        const all = new Set(early.map((ms) => passesFromMs(half, client, nowMs + ms)))
        expect(all.size === 0 || (all.size === 1 && all.has(fromMs))).toBe(true)
      }),
      { numRuns: 300, seed: 1 },
    )
  })
})

const quiet = { afterSunset: 'announce', brownouts: [] } as const
const none = { ...quiet, sunsetMs: undefined, successor: undefined, link: undefined }
const sinceMs = Date.UTC(2025, 11, 5)
const place = { basePath: '/v1' }

describe('lifecycle headers', () => {
  it('tells since when, until when, what instead and where to read of it', () => {
    const deprecated = {
      sinceMs,
      sunsetMs: Date.UTC(2030, 11, 5),
      successor: '/pets?status=available',
      link: 'https://docs.example/deprecation',
      ...quiet,
    }
    expect(lifecycleHeaders({ deprecated, stability: 'stable' }, place)).toEqual(
      fields(`Deprecation: @1764892800 | Sunset: Thu, 05 Dec 2030 00:00:00 GMT
        | Link: </v1/pets?status=available>; rel="successor-version"
        | Link: <https://docs.example/deprecation>; rel="deprecation" | X-API-Stability: stable`),
    )
  })

  it('tells no more than is configured', () => {
    const nothing = { deprecated: undefined, stability: undefined }
    const deprecated = { ...none, sinceMs: sinceMs + 999 }
    for (const [more, told] of [
      [{}, []],
      [{ stability: 'beta' }, ['X-API-Stability', 'beta']],
      [{ deprecated }, ['Deprecation', '@1764892800']],
    ] as const)
      expect(lifecycleHeaders({ ...nothing, ...more }, place)).toEqual(told)
  })

  it.each([
    ['/pets', { basePath: '' }, '</pets>'],
    ['https://new.example/v2/pets', place, '<https://new.example/v2/pets>'],
    ['/a>b"<c \n', place, '</v1/a%3Eb%22%3Cc%20%0A>'],
    ['/caf\u00e9/%C3%A9', place, '</v1/caf%C3%A9/%C3%A9>'],
  ])('links to the successor %j under %j as %s', (successor, under, target) => {
    const deprecated = { ...none, sinceMs, successor }
    expect(lifecycleHeaders({ deprecated, stability: undefined }, under).slice(2)).toEqual([
      'Link',
      `${target}; rel="successor-version"`,
    ])
  })
})
