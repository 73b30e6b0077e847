import { describe, expect, it } from 'vitest'
import { healthOf, type Backend } from '../../../src/core/backends/backend.ts'
import { Standing } from '../../../src/core/backends/standing.ts'
import type { CheckOptions, EjectOptions } from '../../../src/core/backends/standing.ts'
import { eject } from '../../support/balancer.ts'

interface Row {
  /**
   * What happens, at seconds: f, p, q or r a request of that client fails, F, P, Q or R one is answered,
   * u no connection can be made, c one can, x a check fails, o a check is answered; a number behind it: so often;
   * n from here on nobody checks it, y somebody does, s it is ejected for a minute.
   */
  readonly happens: string
  /** What it is at seconds: up, down (named), out (gets no requests while others do). */
  readonly is: string
  readonly eject?: Partial<EjectOptions>
  readonly checks?: CheckOptions
  /** Too many others are out already. */
  readonly stays?: boolean
  /** Another client is served by another backend. */
  readonly elsewhere?: boolean
}

function replay({ happens, is, checks, stays, elsewhere = false, ...row }: Row): string {
  const spared = { ...eject, atMost: stays ? 0 : 1 }
  const standing = new Standing({ ...spared, ...row.eject }, checks)
  const other = new Standing(eject)
  const all = elsewhere ? [standing, other] : [standing]
  const failed = (clientId: string, nowMs: number) => {
    other.answered('somebody', nowMs)
    standing.failed({ cause: 'no answer in time', isAnswer: false, clientId }, all, nowMs)
  }
  const acts: Record<string, (nowMs: number) => void> = {
    u: (nowMs) => standing.unreachable('ECONNREFUSED', all, nowMs),
    c: (nowMs) => standing.connected(nowMs),
    x: (nowMs) => standing.checked('status 500', nowMs),
    o: (nowMs) => standing.checked(undefined, nowMs),
    n: (nowMs) => standing.use(spared, undefined, nowMs),
    y: (nowMs) => standing.use(spared, { down: 2, up: 2 }, nowMs),
    s: (nowMs) => standing.use({ ...spared, forMs: 60_000 }, checks, nowMs),
  }
  for (const client of ['f', 'p', 'q', 'r']) {
    acts[client] = (nowMs) => failed(client, nowMs)
    acts[client.toUpperCase()] = (nowMs) => standing.answered(client, nowMs)
  }
  const events = happens.split(' ').map((text) => {
    const [, seconds = '', act = '', times = '1'] = /^([\d.]+)([a-zA-Z])(\d*)$/.exec(text) ?? []
    return { nowMs: Number(seconds) * 1000, act, times: Number(times || 1) }
  })
  const seen = is.split(' ').map((text) => {
    const [seconds = ''] = text.split(':')
    const nowMs = Number(seconds) * 1000
    while (events[0] !== undefined && events[0].nowMs <= nowMs) {
      const { act, times, nowMs: atMs } = events.shift() ?? { act: '', times: 0, nowMs: 0 }
      for (let count = 0; count < times; count++) acts[act]?.(atMs)
    }
    const state = standing.isOut(nowMs) ? 'out' : standing.isDown ? 'down' : 'up'
    return `${seconds}:${state}`
  })
  return seen.join(' ')
}

describe('a backend', () => {
  const checks = { down: 2, up: 2 }
  const [elsewhere, stays, checked] = [{ elsewhere: true }, { stays: true }, { checks }]
  const two = { eject: { failures: 2 } }
  const [twoElsewhere, three] = [
    { ...two, ...elsewhere },
    { ...elsewhere, eject: { failures: 3 } },
  ]
  it.each<[string, string, string, Partial<Row>?]>([
    ['is up at first', '0F', '0:up'],
    ['is out after so many failures in a row of its only client', '0f4 1f', '0:up 1:out 10.9:out'],
    ['is out after them however long they took', '0f2 60f2 120f', '119:up 120:out'],
    ['is not, if it answers between', '0f4 1F12 2f4', '2:up'],
    ['is not within a second of its last answer', '0F 0.9f9 1f', '0.9:up 1:out'],
    [
      'is up, whatever `failures` clients make it fail, while another is served',
      '0Q 5f9 5p9 9.9f',
      '5:up 9.9:up',
      two,
    ],
    ['is not, when the other was served too long ago', '0Q 10.1f3 10.1p2', '10.1:out'],
    ['is out when all that it served see it fail', '0F 0P 2f4 3p', '2:up 3:out'],
    [
      'is up, whatever fails one client, while others are at work elsewhere',
      '0f9 5f9',
      '0:up 5:up',
      elsewhere,
    ],
    [
      'is out when `failures` clients see it fail, each counted once',
      '0f9 0p9 1f 2q',
      '1:up 2:out',
      three,
    ],
    ['is not, when one was served between', '0f 0p 1P 2q', '2:up', three],
    ['is not, when they did not do so in the same time', '0f 11p 22q', '22:up', three],
    ['is out when no connection can be made, whoever was served', '0Q 1u5', '1:out'],
    ['is not, when one could be made between', '0u4 1c 2u4', '2:up'],
    ['is not, when a request came through between', '0u4 1f 2u4', '2:up', elsewhere],
    [
      'has its time, which one client of several does not lengthen',
      '0f 0p 11f9 12Q',
      '9.9:out 11:down 12:up',
      twoElsewhere,
    ],
    ['but two do', '0f 0p 11f 12p', '11:down 12:out 31.9:out 32:down', twoElsewhere],
    ['has its time, then one answer decides: well', '0f5 11F', '9.9:out 10:down 11:up'],
    ['or not, and then for longer', '0f5 10f', '9:out 10:out 29.9:out 30:down'],
    [
      'and longer still, up to a limit',
      '0f5 10f 30f',
      '9:out 10:out 29:out 30:out 54:out 55:down',
      { eject: { maxForMs: 25_000 } },
    ],
    [
      'is out as long as at first, once it was well for longer',
      '0f5 10F 31f5',
      '9:out 10:up 40.9:out 41:down',
    ],
    ['is out for longer, when it was not', '0f5 10F 15f5', '9:out 10:up 34.9:out'],
    ['is not taken back by what was under way', '0f5 1F3 9F', '9:out'],
    ['nor blamed for it', '0f5 1f9 9f9 11F', '9:out 10:down 11:up'],
    ['that cannot be spared is named, and is up with an answer', '0f5 3F', '0:down 3:up', stays],
    [
      'which must not follow a failure at once',
      '0f5 1f 1.5F 2f 2.9F 4F',
      '0:down 3:down 4:up',
      stays,
    ],
    ['unless it is an answer to another', '0f5 0.5Q', '0:down 0.5:up', stays],
    [
      'to which no connection could be made is up when one can be made',
      '0u5 3c',
      '0:down 3:up',
      stays,
    ],
    ['that does not answer is not, by connections alone', '0f5 3c 20c', '0:down 20:down', stays],
    [
      'is out when it fails checks in a row, and back when it passes them',
      '0x 1o 2x 3x 4o 5x 6o 7o',
      '2:up 3:out 6:out 7:up',
      checked,
    ],
    [
      'is judged by one check until one was answered well',
      '0x 1o 2x 3o',
      '0:out 1:up 2:up 3:up',
      checked,
    ],
    [
      'is not taken back by requests while it fails its checks',
      '0x2 1F 5F',
      '0:out 5:out',
      checked,
    ],
    [
      'that failed requests is taken back by a check after its time',
      '0f5 1o 5o 11o',
      '5:out 10.5:out 11:up',
      checked,
    ],
    [
      'that fails both ways has to be well both ways',
      '0f5 1x2 2o2 11x 12o2',
      '2:out 11:out 12:up',
      checked,
    ],
    ['is out as long as was said when it was put out', '0f5 1s', '9:out 10:down'],
    ['and for as long as is said since', '0f4 1s 2f', '1:up 61:out 62:down'],
    [
      'that failed its checks is tried by a request when nobody checks it',
      '0x 1n 2F',
      '0:out 1:down 2:up',
      checked,
    ],
    [
      'that was put out, too, has its time all the same',
      '0f5 1x2 2n 11F',
      '9:out 10:down 11:up',
      checked,
    ],
    ['that serves is not taken out by the first check there is', '0F 1y 2x 3x', '2:up 3:out'],
    ['that does not is', '0u 1y 2x', '1:up 2:out'],
    ['has no checks behind it when they begin anew', '0o 1x 2n 3y 4x 5x', '4:up 5:out', checked],
  ])('%s', (_, happens, is, more) => {
    expect(replay({ happens, is, ...more })).toBe(is)
  })

  it('that nobody knows is known when it is not to be checked any more', () => {
    const standing = new Standing(eject, { down: 2, up: 2 }, 7_000)
    expect([standing.isUnknown, standing.faultSinceMs]).toEqual([true, 7_000])
    expect([standing.isUnknown, standing.isUsable]).toEqual([true, false])
    standing.use(eject, undefined, 0)
    expect(standing).toMatchObject({ isUnknown: false, isUsable: true, fault: undefined })
  })

  it('that is checked is of use as long as it passes, whatever requests find', () => {
    const standing = new Standing(sole, { down: 1, up: 1 })
    standing.checked(undefined, 0)
    for (let count = 0; count < 5; count++) standing.unreachable(refused, [standing], 1_000)
    expect([standing.isOut(1_000), standing.isUsable]).toEqual([true, true])
    standing.checked('status 500', 2_000)
    expect(standing.isUsable).toBe(false)
  })

  it('that served more clients than it keeps apart has served them all the same', () => {
    const standing = new Standing(eject)
    for (let client = 0; client < 1_000; client++) standing.answered(`client-${client}`, 1_000)
    const other = new Standing(eject)
    const all = [standing, other]
    const fail = (nowMs: number): void => {
      other.answered('somebody', nowMs)
      for (let client = 0; client < 999; client++)
        standing.failed({ cause: '', isAnswer: true, clientId: `client-${client}` }, all, nowMs)
    }
    fail(5_000)
    expect(standing.isDown).toBe(false)
    fail(11_001)
    expect(standing.isDown).toBe(true)
  })
})

const refused = 'connect ECONNREFUSED'
const sole = { ...eject, atMost: 1 }

it('an ejected backend that cannot be reached says when it is tried again, though nothing will be better by then', () => {
  const standing = new Standing(sole, undefined)
  const nowMs = performance.now()
  for (let failed = 0; failed < eject.failures; failed++)
    standing.unreachable(refused, [standing], nowMs)
  const health = healthOf({ name: 'one', standing } as Backend)
  expect(health).toMatchObject({ state: 'ejected', isUsable: false })
  const inMs = Number(health.nextTryAtMs) - Date.now()
  expect(inMs).toBeGreaterThan(0)
  expect(inMs).toBeLessThanOrEqual(eject.forMs)
})
