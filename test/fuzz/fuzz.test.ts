/** A sample of what `npm run proof` and `npm run fuzz` draw without end, and all that they have found. */
import { describe, expect, it } from 'vitest'
import { engines } from '../wire/wire.ts'
import { foundAgain, fuzz } from './fuzzing.ts'
import { sides } from './sides.ts'

const seed = 1

describe.each(engines)('a gateway with %s', (engine) => {
  it.each([
    ['clients', 100],
    ['backends', 32],
  ] as const)('bears what %s like to send', async (side, count) => {
    const { found, explored } = await fuzz(sides[side], { engine, count, seed })
    expect(found).toBeUndefined()
    for (const what of Object.keys(sides[side].shows))
      expect(explored.count(what)).toBeGreaterThan(0)
  })

  it.each(['clients', 'backends'] as const)('bears what was found of %s', async (side) => {
    expect(await foundAgain(sides[side], engine, 12)).toEqual({})
  })
})
