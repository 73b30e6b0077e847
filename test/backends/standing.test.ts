import { describe, expect, it } from 'vitest'
import type { Backend } from '../../src/backends/backend.ts'
import { healthOf } from '../../src/backends/health.ts'
import { Standing, type CheckOptions, type EjectOptions } from '../../src/backends/standing.ts'
import { eject } from '../support/balancer.ts'

interface Row {
  /**
   * What happens, at seconds: f a request fails whose client is alone, p or q one of client p or q, who are not alone,
   * a one is answered, u no connection can be made, c one can, x a check fails, o a check is answered; a number behind it: so often;
   * n from here on nobody checks it, y somebody does, s it is ejected for a minute.
   */
  readonly happens: string
  /** What it is at seconds: up, down (named), out (gets no requests while others do). */
  readonly is: string
  readonly eject?: Partial<EjectOptions>
  readonly checks?: CheckOptions
  /** Too many others are out already. */
  readonly stays?: boolean
}

function replay({ happens, is, checks, stays, ...row }: Row): string {
  const standing = new Standing({ ...eject, ...row.eject }, checks)
  const failure = {
    cause: 'no answer in time',
    kind: 'silent or broken',
    mayEject: stays !== true,
    witness: { clientId: 'f', isAlone: true },
  } as const
  const acts: Record<string, (nowMs: number) => void> = {
    f: (nowMs) => standing.failed(failure, nowMs),
    p: (nowMs) =>
      standing.failed({ ...failure, witness: { clientId: 'p', isAlone: false } }, nowMs),
    q: (nowMs) =>
      standing.failed({ ...failure, witness: { clientId: 'q', isAlone: false } }, nowMs),
    u: (nowMs) => standing.failed({ ...failure, kind: 'unreachable', witness: undefined }, nowMs),
    a: (nowMs) => standing.answered(nowMs),
    c: (nowMs) => standing.connected(nowMs),
    x: (nowMs) => standing.checked('status 500', nowMs),
    o: (nowMs) => standing.checked(undefined, nowMs),
    n: (nowMs) => standing.use(eject, undefined, nowMs),
    y: (nowMs) => standing.use(eject, { down: 2, up: 2 }, nowMs),
    s: (nowMs) => standing.use({ ...eject, forMs: 60_000 }, checks, nowMs),
  }
  const events = happens.split(' ').map((text) => {
    const [, seconds = '', act = '', times = '1'] = /^([\d.]+)([a-z])(\d*)$/.exec(text) ?? []
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
  it.each<[string, Row]>([
    ['is up at first', { happens: '0a', is: '0:up' }],
    ['is out after so many failures in a row', { happens: '0f4 1f', is: '0:up 1:out 10.9:out' }],
    [
      'is out after them however long they took',
      { happens: '0f2 60f2 120f', is: '119:up 120:out' },
    ],
    ['is not, if it answers between', { happens: '0f4 1a12 2f4', is: '2:up' }],
    [
      'is out after as many within the window, when they are half of its answers',
      { happens: '0f 1a 2f 3a 4f 5a 6f 7a 8f', is: '7:up 8:out' },
    ],
    ['is not, when they are less', { happens: '0f2 1a9 2f2 3a 4f', is: '4:up' }],
    ['is not, when the window is over', { happens: '0f2 1a 2f2 3a 12f', is: '12:up' }],
    ['is up, whatever one of several clients makes it fail', { happens: '0p9 5p9', is: '5:up' }],
    ['is out when another sees it fail, too', { happens: '0p4 1q', is: '0:up 1:out' }],
    ['is not, when that is in another window', { happens: '0p9 11q', is: '11:up' }],
    ['is out when no connection can be made, whoever asks', { happens: '0p4 1u', is: '1:out' }],
    [
      'has its time, and one of several clients does not make it longer',
      { happens: '0p4 1q 11p9 12a', is: '10.9:out 11:down 12:up' },
    ],
    ['but two do', { happens: '0p4 1q 11p 12q', is: '11:down 12:out 31.9:out 32:down' }],
    [
      'that cannot be spared is not kept down by one of them',
      { happens: '0p4 1q 11p 11.5a', is: '1:down 11.5:up', stays: true },
    ],
    [
      'has its time, then one answer decides: well',
      { happens: '0f5 11a', is: '9.9:out 10:down 11:up' },
    ],
    ['or not, and then for longer', { happens: '0f5 10f', is: '9:out 10:out 29.9:out 30:down' }],
    [
      'and longer still, up to a limit',
      {
        happens: '0f5 10f 30f',
        is: '9:out 10:out 29:out 30:out 54:out 55:down',
        eject: { maxForMs: 25_000 },
      },
    ],
    [
      'is out for as long as at first, once it was well for longer than it was out',
      { happens: '0f5 10a 31f5', is: '9:out 10:up 40.9:out 41:down' },
    ],
    ['is out for longer, when it was not', { happens: '0f5 10a 15f5', is: '9:out 10:up 34.9:out' }],
    ['is not taken back by what was under way', { happens: '0f5 1a3 9a', is: '9:out' }],
    ['nor blamed for it', { happens: '0f5 1f9 9f9 11a', is: '9:out 10:down 11:up' }],
    [
      'that cannot be spared is named all the same, and is up with an answer',
      { happens: '0f5 3a', is: '0:down 3:up', stays: true },
    ],
    [
      'which must not follow a failure at once',
      { happens: '0f5 1f 1.5a 2f 2.9a 4a', is: '0:down 3:down 4:up', stays: true },
    ],
    [
      'to which no connection could be made is up when one can be made',
      { happens: '0u5 3c', is: '0:down 3:up', stays: true },
    ],
    [
      'that does not answer is not, by connections alone',
      { happens: '0f5 3c 20c', is: '0:down 20:down', stays: true },
    ],
    [
      'is out when it fails its checks in a row, and back when it passes them',
      {
        happens: '0x 1o 2x 3x 4o 5x 6o 7o',
        is: '2:up 3:out 6:out 7:up',
        checks: { down: 2, up: 2 },
      },
    ],
    [
      'is judged by one check until one was answered well',
      {
        happens: '0x 1o 2x 3o',
        is: '0:out 1:up 2:up 3:up',
        checks: { down: 2, up: 2 },
      },
    ],
    [
      'is not taken back by requests while it fails its checks',
      { happens: '0x2 1a 5a', is: '0:out 5:out', checks: { down: 2, up: 2 } },
    ],
    [
      'that failed requests is taken back by a check, once its time is over',
      { happens: '0f5 1o 5o 11o', is: '5:out 10.5:out 11:up', checks: { down: 2, up: 2 } },
    ],
    [
      'that fails both ways has to be well both ways',
      { happens: '0f5 1x2 2o2 11x 12o2', is: '2:out 11:out 12:up', checks: { down: 2, up: 2 } },
    ],
    ['is out as long as was said when it was put out', { happens: '0f5 1s', is: '9:out 10:down' }],
    ['and for as long as is said since', { happens: '0f4 1s 2f', is: '1:up 61:out 62:down' }],
    [
      'that failed its checks is tried by a request when nobody checks it any more',
      { happens: '0x 1n 2a', is: '0:out 1:down 2:up', checks: { down: 2, up: 2 } },
    ],
    [
      'that was put out, too, has its time all the same',
      { happens: '0f5 1x2 2n 11a', is: '9:out 10:down 11:up', checks: { down: 2, up: 2 } },
    ],
    [
      'that serves is not taken out by the first check there is',
      { happens: '0a 1y 2x 3x', is: '2:up 3:out' },
    ],
    ['that does not is', { happens: '0u 1y 2x', is: '1:up 2:out' }],
    [
      'has no checks behind it when they begin anew',
      { happens: '0o 1x 2n 3y 4x 5x', is: '4:up 5:out', checks: { down: 2, up: 2 } },
    ],
  ])('%s', (_, row) => {
    expect(replay(row)).toBe(row.is)
  })

  it('that nobody knows is known when it is not to be checked any more', () => {
    const standing = new Standing(eject, { down: 2, up: 2 })
    expect([standing.isUnknown, standing.usableAtMs]).toEqual([true, Infinity])
    standing.use(eject, undefined, 0)
    expect([standing.isUnknown, standing.isUnreachable, standing.fault]).toEqual([
      false,
      false,
      undefined,
    ])
  })

  it('is said to be worth a request again when its time is over, so that it gets one', () => {
    const standing = new Standing(eject)
    for (let count = 0; count < 5; count++)
      standing.failed({ cause: 'status 503', kind: 'status', mayEject: false }, 1_000)
    expect([standing.isDown, standing.usableAtMs, standing.fault]).toEqual([
      true,
      11_000,
      'status 503',
    ])
  })
})

it('an ejected backend that cannot be reached says when it is tried again, though nothing will be better by then', () => {
  const standing = new Standing(eject, undefined)
  const nowMs = performance.now()
  const refused = { cause: 'connect ECONNREFUSED', kind: 'unreachable', mayEject: true } as const
  for (let failed = 0; failed < eject.failures; failed++)
    standing.failed({ ...refused, witness: undefined }, nowMs)
  const health = healthOf({ name: 'one', standing } as Backend)
  expect(health).toMatchObject({ state: 'ejected', usableAtMs: Infinity })
  const inMs = Number(health.nextTryAtMs) - Date.now()
  expect(inMs).toBeGreaterThan(0)
  expect(inMs).toBeLessThanOrEqual(eject.forMs)
})
