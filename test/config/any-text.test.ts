import { it } from 'vitest'
import { areJudged } from './any-text.ts'

it.each([
  ['ofPieces', 250],
  ['damaged', 30],
  ['ofAnyValue', 100],
] as const)(
  'a text %s is a configuration, or each problem has place, fault and remedy',
  (kind, numRuns) => areJudged(kind, { numRuns, seed: 1 }),
)
