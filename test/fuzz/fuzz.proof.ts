/**
 * Whatever a client sends, the backend receives exactly the sound requests that were authenticated and charged, each answer is
 * sound, and the next client is served as ever. Whatever a backend answers, a client is given what a strict reader makes of it, a
 * refusal, or a connection that is closed; a cut-off answer never looks whole, and nothing of one answer is in the next.
 *
 * New ones each time: a failure prints the seed that draws them again, with TOLLGATE_FUZZ_SEED=<seed> or `npm run fuzz -- --seed
 * <seed>`, which draws as many as one likes.
 */
import { describe, expect, it } from 'vitest'
import { engines } from '../wire/wire.ts'
import { scripts } from './answer-grammar.ts'
import { startAnswerWorld } from './answer-world.ts'
import { randomSeed } from './explored.ts'
import { fuzz } from './fuzzing.ts'
import { play, sides } from './sides.ts'

const STALLED = 32

describe.each(engines)('a gateway with %s', (engine) => {
  it.each([
    ['clients', 1_500],
    ['backends', 1_000],
  ] as const)('bears what %s like to send', async (side, count) => {
    const { shows } = sides[side]
    for (const seed of [1, randomSeed()]) {
      const { explored, found } = await play(sides[side], { engine, count, seed })
      expect(found).toBeUndefined()
      for (const [what, part] of Object.entries(shows))
        expect(explored.count(what), what).toBeGreaterThan(count * part)
    }
  })

  it('bears backends that stop in the midst of an answer', async () => {
    const seed = randomSeed()
    const start = () => startAnswerWorld(engine, { stalls: true })
    const { found } = await fuzz(start, scripts({ stalls: true }), {
      seed,
      isEnough: (sofar) => sofar.count('answers') >= STALLED,
    })
    expect(found).toBeUndefined()
  })
})
