/**
 * Whatever a backend answers, a client is given what a strict reader makes of it, a refusal, or a connection that is closed; a
 * cut-off answer never looks whole, and nothing of one answer is in the next. Seeds as in clients.test.ts.
 */
import { describe, expect, it } from 'vitest'
import { engines } from '../wire/wire.ts'
import { answerCases } from './answer-cases.ts'
import { scripts } from './answer-grammar.ts'
import { startAnswerWorld } from './answer-world.ts'
import { randomSeed, report } from './explored.ts'
import { fuzz, violationOf } from './fuzzing.ts'

const ANSWERS = 1_000
const STALLED = 32
const FIXED_SEED = 1

for (const engine of engines) {
  describe(`a backend of a gateway with ${engine}`, () => {
    it.each([
      ['as ever', FIXED_SEED],
      ['as never before', randomSeed()],
    ])('may answer what it likes, %s', { timeout: 120_000 }, async (_, seed) => {
      const { explored, found } = await fuzz(
        () => startAnswerWorld(engine),
        scripts({ stalls: false }),
        {
          seed,
          isEnough: (sofar) => sofar.count('answers') >= ANSWERS,
        },
      )
      expect(report(found, seed)).toBeUndefined()
      // It would prove little if hardly anything came through, or all did.
      for (const heard of ['200', '502', 'cut off'])
        expect(explored.count(`heard ${heard}`)).toBeGreaterThan(ANSWERS / 50)
      expect(explored.count('not judged')).toBeLessThan(ANSWERS / 5)
    })

    it.each(Object.entries(answerCases))('harms nobody when %s', async (_, script) => {
      const played = { method: 'GET' as const, mutations: [], ...script }
      expect(await violationOf(() => startAnswerWorld(engine), played)).toBeUndefined()
    })

    it('may stop in the midst of an answer', { timeout: 60_000 }, async () => {
      const seed = randomSeed()
      const start = () => startAnswerWorld(engine, { stalls: true })
      const { found } = await fuzz(start, scripts({ stalls: true }), {
        seed,
        isEnough: (sofar) => sofar.count('answers') >= STALLED,
      })
      expect(report(found, seed)).toBeUndefined()
    })
  })
}
