/**
 * Whatever a client sends, the backend receives exactly the sound requests that were authenticated and charged, each answer is
 * sound, and the next client is served as ever. New requests each time: a failure prints the seed that draws them again, with
 * TOLLGATE_FUZZ_SEED=<seed> or `npm run fuzz -- --seed <seed>`, which draws as many as one likes.
 */
import { describe, expect, it } from 'vitest'
import { engines } from '../wire/wire.ts'
import { clientCases } from './client-cases.ts'
import { conversations } from './client-grammar.ts'
import { clientKeys, startClientWorld } from './client-world.ts'
import { randomSeed, report } from './explored.ts'
import { fuzz, violationOf } from './fuzzing.ts'

const REQUESTS = 1_500
const FIXED_SEED = 1

for (const engine of engines) {
  describe(`a client of a gateway with ${engine}`, () => {
    const start = () => startClientWorld(engine)

    it.each([
      ['as ever', FIXED_SEED],
      ['as never before', randomSeed()],
    ])('may say what it likes, %s', { timeout: 120_000 }, async (_, seed) => {
      const { explored, found } = await fuzz(start, conversations(clientKeys), {
        seed,
        isEnough: (sofar) => sofar.count('requests') >= REQUESTS,
      })
      expect(report(found, seed)).toBeUndefined()
      // It would prove little if hardly anything came through, or all did.
      expect(explored.count('answer 200')).toBeGreaterThan(REQUESTS / 10)
      expect(explored.count('answer 400')).toBeGreaterThan(REQUESTS / 50)
      expect(explored.count('answer 401')).toBeGreaterThan(REQUESTS / 50)
    })

    it.each(Object.entries(clientCases))('harms nobody when %s', async (_, { steps, ending }) => {
      const conversation = { steps, ending: ending ?? 'patient', mutations: [] }
      expect(await violationOf(start, conversation)).toBeUndefined()
    })
  })
}
