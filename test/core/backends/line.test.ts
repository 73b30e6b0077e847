import { describe, expect, it } from 'vitest'
import { Line, Place } from '../../../src/core/backends/line.ts'

/** Each request by its client's letter and its number: a1. */
const placeOf = (name: string): Place =>
  new Place(
    { clientId: name.slice(0, 1), method: 'GET', onPermit: () => {}, onOverdue: () => {} },
    1_000,
  )

describe('the line', () => {
  it('gives the next turn to the next client, whoever came and left meanwhile', () => {
    const line = new Line()
    const places = new Map<string, Place>()
    const enter = (name: string): void => {
      const place = placeOf(name)
      places.set(name, place)
      line.enter(place)
    }
    const leave = (name: string): void => line.leave(places.get(name) ?? placeOf(name))
    const next = (): string => {
      const [first] = line.firsts()
      expect(line.length).toBe([...line.places()].length)
      if (first !== undefined) line.serve(first)
      return Array.from(places).find(([, place]) => place === first)?.[0] ?? 'nobody'
    }
    for (const name of ['a1', 'a2', 'b1', 'b2']) enter(name)
    expect(next()).toBe('a1')
    // One whose client has no request left in line begins anew, behind the others.
    enter('c1')
    expect([next(), next(), next()]).toEqual(['b1', 'a2', 'c1'])
    for (const name of ['a3', 'a4', 'a5', 'd1']) enter(name)
    for (const name of ['a4', 'd1']) leave(name)
    expect([next(), next(), next(), next()]).toEqual(['b2', 'a3', 'a5', 'nobody'])
  })

  it('can be left twice, and entered again', () => {
    const line = new Line()
    const [one, two] = [placeOf('a1'), placeOf('a2')]
    line.enter(one)
    line.enter(two)
    line.leave(one)
    line.leave(one)
    expect([line.length, ...line.places()]).toEqual([1, two])
    line.enter(one)
    expect([...line.places()]).toEqual([two, one])
  })
})
