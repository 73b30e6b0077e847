/** What all connections take in of a turn together; how it feels on the wire is in test/wire/h2-attacks.test.ts and inflow.test.ts. */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { beginRequests, Share, SharedTurn } from '../../../src/core/http/shared-turn.ts'
import type { Sharer } from '../../../src/core/http/shared-turn.ts'

function sharing(shared: SharedTurn, isKnown: boolean) {
  const happened: string[] = []
  const sharer: Sharer = {
    share: new Share(),
    client: { isProven: isKnown },
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
  for (let piece = 0; piece < pieces; piece++) shared.take(new Share(), bytes)
  expect([other?.happened, known?.happened]).toEqual([expected, []])
  // The next turn has its own budget, and in it they read on, though a request comes in each turn.
  for (let more = 0; more < 3; more++) {
    const share = new Share()
    shared.parsed(share, 1)
    beginRequests.add({ ...sharing(shared, true).sharer, goOn: () => shared.parsed(share, -1) })
    await turn()
  }
  for (let piece = 0; piece < 1_000; piece++) shared.take(new Share(), bytes)
  expect(other?.happened).toEqual(expected.length === 0 ? [] : ['stops', 'reads on'])
})

it('requests begin in one turn: eight of a connection, 64 of all, and the first of any where that is asked for', async () => {
  const shared = new SharedTurn()
  const shares = Array.from({ length: 10 }, () => new Share())
  const begun = (atLeast?: number): number[] =>
    shares.map((share) => {
      let count = 0
      for (; shared.mayBegin(share, atLeast) && count < 100; count++) shared.began(share)
      return count
    })
  const first = [8, 8, 8, 8, 8, 8, 8, 8, 0, 0]
  expect(begun()).toEqual(first)
  expect(begun(1)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
  await turn()
  expect(begun()).toEqual(first)
})

it.each([
  ['8 begun', 8, 0, true],
  ['7 begun', 7, 0, false],
  ['65 pieces', 0, 65, true],
  ['64 pieces', 0, 64, false],
])('who is known has 8 requests that wait and %s where all stop', async (_, begun, pieces, is) => {
  const shared = new SharedTurn()
  const [known, other] = [sharing(shared, true), sharing(shared, false)]
  shared.parsed(known.sharer.share, 8)
  for (let request = 0; request < begun; request++) shared.began(known.sharer.share)
  if (pieces > 0) shared.take(known.sharer.share, 1_000_000, pieces)
  shared.take(new Share(), 1, 1_024)
  expect([known.happened, other.happened]).toEqual([is ? ['stops'] : [], ['stops']])
  shared.parsed(known.sharer.share, -8)
  // Who has used much reads on behind the others, when a turn did not have to stop them.
  await turn()
  expect([known.happened.length, other.happened]).toEqual([Number(is), ['stops', 'reads on']])
  await turn()
  expect(known.happened).toEqual(is ? ['stops', 'reads on'] : [])
})
