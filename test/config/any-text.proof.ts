import { it } from 'vitest'
import { areJudged } from './any-text.ts'

it.each([
  ['ofPieces', 20_000],
  ['damaged', 2_000],
  ['ofAnyValue', 10_000],
] as const)(
  'a text %s is a configuration, or each problem has place, fault and remedy',
  (kind, numRuns) => areJudged(kind, { numRuns }),
  600_000,
)
