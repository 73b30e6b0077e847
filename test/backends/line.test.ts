import { describe, expect, it } from 'vitest'
import { Line, Place } from '../../src/backends/line.ts'

/** Each request by its client's letter and its number: a1. */
const placeOf = (name: string): Place =>
  new Place(
    { clientId: name.slice(0, 1), method: 'GET', onPermit: () => {}, onOverdue: () => {} },
    1_000,
  )

/** enter: in this order; leave: before the first is served. */
function serve(enter: string, leave = ''): string {
  const line = new Line()
  const places = new Map(enter.split(' ').map((name) => [name, placeOf(name)]))
  const nameOf = new Map(Array.from(places, ([name, place]) => [place, name]))
  for (const place of places.values()) line.enter(place)
  for (const name of leave.split(' ')) {
    const place = places.get(name)
    if (place !== undefined) line.leave(place)
  }
  const served: (string | undefined)[] = []
  for (let { first } = line; first !== undefined; first = line.first) {
    expect(line.length).toBe(line.places().length)
    served.push(nameOf.get(first))
    line.serve(first)
  }
  expect([line.length, line.places()]).toEqual([0, []])
  return served.join(' ')
}

describe('the line', () => {
  it.each([
    ['is empty at first', '', '', ''],
    ['serves the requests of one client in their order', 'a1 a2 a3', '', 'a1 a2 a3'],
    ['serves clients by turns', 'a1 a2 a3 a4 b1 b2 c1', '', 'a1 b1 c1 a2 b2 a3 a4'],
    ['passes over who has left', 'a1 a2 b1 c1', 'a1 b1', 'a2 c1'],
    ['passes over who has left from the middle', 'a1 a2 a3 b1', 'a2', 'a1 b1 a3'],
    ['may be left by all', 'a1 a2 b1', 'b1 a2 a1', ''],
  ])('%s', (_, enter, leave, expected) => {
    expect(serve(enter, leave)).toBe(expected)
  })

  it('gives the next turn to the next client, whoever came meanwhile', () => {
    const line = new Line()
    const names = new Map<Place, string>()
    const enter = (name: string): void => {
      const place = placeOf(name)
      names.set(place, name)
      line.enter(place)
    }
    const next = (): string => {
      const { first } = line
      if (first !== undefined) line.serve(first)
      return (first && names.get(first)) ?? 'nobody'
    }
    for (const name of ['a1', 'a2', 'b1', 'b2']) enter(name)
    expect(next()).toBe('a1')
    // One whose client has no request left in line begins anew, behind the others.
    enter('c1')
    expect([next(), next(), next()]).toEqual(['b1', 'a2', 'c1'])
    enter('a3')
    expect([next(), next(), next()]).toEqual(['b2', 'a3', 'nobody'])
  })

  it('can be left twice, and entered again', () => {
    const line = new Line()
    const [one, two] = [placeOf('a1'), placeOf('a2')]
    line.enter(one)
    line.enter(two)
    line.leave(one)
    line.leave(one)
    expect([line.length, line.first]).toEqual([1, two])
    line.enter(one)
    expect(line.places()).toEqual([two, one])
  })
})
