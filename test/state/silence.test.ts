import { expect, it } from 'vitest'
import { Silence } from '../../src/state/silence.ts'

/** Whether the store is away after calls that had no answer by then, each bounded by timeoutMs. */
const awayAt = (atMs: readonly number[], timeoutMs: number): boolean[] => {
  const silence = new Silence()
  return atMs.map((ms) => silence.goesOn(ms, timeoutMs))
}
const every = (stepMs: number, count: number, from = 100): number[] =>
  Array.from({ length: count }, (_, at) => from + at * stepMs)

it('a store is away after a second without an answer, however many calls it was', () => {
  expect(awayAt(every(100, 10), 100)).toEqual([...Array<boolean>(9).fill(false), true])
  expect(awayAt([...Array<number>(1_000).fill(150), 1_040], 100).includes(true)).toBe(false)
  expect(awayAt([1_000], 1_000)).toEqual([true])
})

it('time in which nothing was asked does not count beyond a quarter of a second', () => {
  expect(awayAt(every(60_000, 5), 100)).toEqual([false, false, false, false, true])
})

it('an answer ends it', () => {
  const silence = new Silence()
  for (const ms of every(100, 9)) silence.goesOn(ms, 100)
  expect(silence.isOn).toBe(true)
  silence.end()
  expect([silence.isOn, silence.goesOn(1_000, 100)]).toEqual([false, false])
})
