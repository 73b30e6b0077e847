import { describe, expect, it } from 'vitest'
import { lifecycleHeaders } from '../../../src/core/rules/lifecycle-headers.ts'
import { fields } from '../../support/words.ts'

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
