/** What all connections take in of a turn together; how it feels on the wire is in test/wire/h2-attacks.test.ts and inflow.test.ts. */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { Share, SharedTurn, type Sharer } from '../../src/listeners/shared-turn.ts'

function sharing(shared: SharedTurn, isKnown: boolean) {
  const happened: string[] = []
  const sharer: Sharer = {
    share: new Share(shared),
    isKnown,
    goOn: () => happened.push('goes on'),
    stopReading: () => happened.push('stops'),
    readOn: () => happened.push('reads on'),
  }
  shared.enter(sharer)
  return { sharer, happened }
}

it.each([
  ['1,023 small pieces', 1_023, 255, []],
  ['1,024 small pieces', 1_024, 255, ['stops']],
  ['10,000 that are not small', 10_000, 256, []],
])('%s in one turn, of whichever connections', async (_, pieces, bytes, expected) => {
  const shared = new SharedTurn()
  const [known, other, left] = [true, false, false].map((is) => sharing(shared, is))
  shared.leave((left ?? expect.fail()).sharer)
  for (let piece = 0; piece < pieces; piece++) shared.took(bytes)
  expect([other?.happened, known?.happened]).toEqual([expected, []])
  // The next turn has its own budget, and in it they read on.
  for (let more = 0; more < 3; more++) await turn()
  for (let piece = 0; piece < 1_000; piece++) shared.took(bytes)
  expect(other?.happened).toEqual(expected.length === 0 ? [] : ['stops', 'reads on'])
})
