import { describe, expect, it } from 'vitest'
import { Fault, faultLines, usageFault } from '../../../src/cli/terminal/fault.ts'
import { eventsIn } from '../../../src/cli/operator/top.ts'
import { all } from '../../support/all.ts'

const whole = new Fault('unreachable', 'cannot reach it', {
  reason: 'connection refused',
  remedy: 'start it',
})

describe('a fault', () => {
  it.each([
    [whole, ['tollgate: cannot reach it', '  cause   connection refused', '  remedy  start it']],
    [new Error('plainly so'), ['tollgate: plainly so']],
    [usageFault('no'), ['tollgate: no', '  remedy  Add --help to see what is taken.']],
  ])('of %s is told in lines', (error, lines) => expect(faultLines(error, false)).toEqual(lines))

  it.each([
    [whole, ['unreachable', 'cannot reach it', 'connection refused', 'start it']],
    [new Error('so'), ['failed', 'so', null, null]],
  ])('of %s is one line of JSON for a program', (error, [code, message, cause, remedy]) => {
    const [line, ...more] = faultLines(error, true)
    expect([JSON.parse(line ?? ''), more]).toEqual([
      { error: { code, message, cause, remedy } },
      [],
    ])
  })
})

describe('a stream of events', () => {
  const written =
    ': hello\n\nevent: tick\ndata: {"ü":1}\n\ndata: a\ndata: b\r\n\r\nevent: cut\ndata: never'
  it.each([1, 2, 7, 1_000])('is read in pieces of %d bytes', async (size) => {
    const bytes = Buffer.from(written)
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    )
    expect(await all(eventsIn(ReadableStream.from(pieces)))).toEqual([
      { type: 'tick', data: '{"ü":1}' },
      { type: 'message', data: 'a\nb' },
    ])
  })
})
