import { describe, expect, it } from 'vitest'
import { Pace } from '../../../src/core/pipeline/slow-clients.ts'

const KiB = 1024

/** The second in which a client is found too slow that moves so many bytes in each; undefined: in none of them. */
function tooSlowAt(rateBytes: number, bytesPerSecond: readonly number[]): number | undefined {
  const pace = new Pace(0, rateBytes)
  let bytes = 0
  for (const [at, movedBytes] of bytesPerSecond.entries()) {
    bytes += movedBytes
    if (pace.isTooSlow(bytes, rateBytes, 1_000)) return at + 1
  }
  return undefined
}
const often = (times: number, moved: readonly number[]): number[] =>
  Array.from({ length: times }, () => moved).flat()
const seconds = (count: number, bytes: number): number[] => Array<number>(count).fill(bytes)

describe('a client, with a minimum rate of 512 bytes a second,', () => {
  it.each([
    ['moves nothing: too slow once the grace of 5 s is over', seconds(60, 0), 6],
    ['moves one byte a second', seconds(60, 1), 6],
    ['moves half the rate: twice the grace', seconds(60, 256), 11],
    ['moves just the rate', seconds(3_600, 512), undefined],
    ['moves four times the rate every fourth second', often(900, [0, 0, 0, 2048]), undefined],
    ['begins with a silence of 20 s', often(50, [...seconds(20, 0), 600 * KiB]), 6],
    [
      'is silent for 20 s at a time behind a beginning, as the kernel takes much at once',
      [600 * KiB, ...often(50, [...seconds(20, 0), 600 * KiB])],
      undefined,
    ],
    ['took a whole megabyte and stops: 32 s later', [KiB * KiB, ...seconds(60, 0)], 33],
  ])('%s', (_, moved: number[], expected) => {
    expect(tooSlowAt(512, moved)).toBe(expected)
  })
})

describe('a client of a high minimum rate', () => {
  it('has the grace of 5 s all the same', () => {
    expect(tooSlowAt(KiB * KiB, [8 * KiB * KiB, ...seconds(60, 0)])).toBe(6)
  })

  it('is not charged for time in which it was not waited for', () => {
    const pace = new Pace(0, 512)
    expect([pace.isTooSlow(0, 512, 5_000), pace.isTooSlow(0, 512, 0)]).toEqual([false, false])
  })
})
