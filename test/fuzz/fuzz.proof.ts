/**
 * Whatever a client sends, the backend receives exactly the sound requests that were authenticated and charged, each answer is
 * sound, and the next client is served as ever. Whatever a backend answers, a client is given what a strict reader makes of it, a
 * refusal, or a connection that is closed; a cut-off answer never looks whole, and nothing of one answer is in the next.
 *
 * New ones each time: a failure prints the seed that draws them again, with TOLLGATE_FUZZ_SEED=<seed> or `npm run fuzz -- --seed
 * <seed>`, which draws as many as one likes. CI draws the same each time: what it finds is of the change that it judges.
 */
import { describe, expect, it } from 'vitest'
import { engines } from '../wire/wire.ts'
import { fuzz, randomSeed } from './fuzzing.ts'
import { sides } from './sides.ts'

const further = process.env['CI'] === 'true' ? 2 : randomSeed()

describe.each(engines)('a gateway with %s', (engine) => {
  it.each([
    ['clients', 1_500, [1, further]],
    ['backends', 1_000, [1, further]],
  ] as const)('bears what %s like to send', async (side, count, seeds) => {
    for (const seed of seeds) {
      const { explored, found } = await fuzz(sides[side], { engine, count, seed })
      expect(found).toBeUndefined()
      for (const [what, part] of Object.entries(sides[side].shows))
        expect(explored.count(what), what).toBeGreaterThan(count * part)
    }
  })
})
