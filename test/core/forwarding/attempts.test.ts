/** The policy alone, on an engine that does as it is told; with real engines it is held by test/contract/. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Outcome } from '../../../src/core/backends/backend.ts'
import { Forwarding, type Forwarder } from '../../../src/core/forwarding/attempts.ts'
import type { AttemptSink, ForwardJob } from '../../../src/core/forwarding/engine.ts'
import type { BackendFailure, FailedAttempt } from '../../../src/core/rules/backend-failure.ts'
import { jobWith } from '../../contract/forwarding.ts'
import { balancerOf, retriesOf, unreachable } from '../../support/balancer.ts'
import { until } from '../../support/until.ts'

const stale: FailedAttempt = {
  ...unreachable,
  kind: 'broken',
  phase: 'sent',
  reusedConnection: true,
}
const named = (letters: string): string[] => letters.split('').map((letter) => `http://${letter}`)
const answer = (status: number) => (sink: AttemptSink) => {
  sink.head(status, [])
  sink.data(Buffer.from('x'))
  sink.end()
}
const fail = (failed: FailedAttempt) => (sink: AttemptSink) => sink.fail(failed)

interface Options extends Partial<ForwardJob> {
  readonly retry?: Parameters<typeof retriesOf>[1]
  readonly connections?: number
}

/** Backends by letter; records which were tried, what the balancer heard and what the pipeline was told. */
function start(
  letters: string,
  steps: ((sink: AttemptSink) => void)[],
  { retry, connections = 8, ...job }: Options = {},
) {
  const heard: [string, Outcome][] = []
  const told: string[] = []
  const aborted: string[] = []
  const balancer = balancerOf(named(letters), { connections })
  const report = balancer.report.bind(balancer)
  balancer.report = (backend, outcome, sender) => {
    heard.push([backend.host, outcome])
    report(backend, outcome, sender)
  }
  let tried = ''
  const engine: Forwarder['engine'] = {
    send: ({ host }, _job, sink) => {
      tried += host
      const step = steps.shift()
      queueMicrotask(() => step?.(sink))
      return { abort: () => aborted.push(host) > 0, resume: () => told.push(`resume ${host}`) }
    },
    close: () => {},
  }
  const forwarder = { balancer, retries: retriesOf(balancer, retry), engine }
  class Told extends Forwarding {
    protected sentTo = (backend: string): void => void told.push(backend)
    override head(status: number, headers: string[]): void {
      super.head(status, headers)
      told.push(String(status))
    }
    data = (): boolean => true
    override end(): void {
      super.end()
      told.push('end')
    }
    protected refuse = ({ kind }: BackendFailure): void => void told.push(kind)
  }
  const forward = (more?: Partial<ForwardJob>) => {
    const request = new Told(jobWith({ ...job, ...more }), forwarder)
    request.begin()
    return request
  }
  return { handle: forward(), forward, heard, told, aborted, tried: () => tried }
}

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 4; turn++) await nextTurn()
}

describe('a request', () => {
  const silent = { ...stale, kind: 'response_timeout' } as const
  const gone = { ...unreachable, bodyTouched: true }
  const begun = { ...stale, answerBegun: true }
  const fresh = { ...stale, reusedConnection: false }
  // Of these backends, these are tried.
  it.each<[string, method: string, letters: string, FailedAttempt, expected: string]>([
    ['that found nobody there goes to the next backend', 'GET', 'ab', unreachable, 'ab'],
    ['goes there as a POST too', 'POST', 'ab', unreachable, 'ab'],
    ['has nowhere to go from the only backend', 'GET', 'a', unreachable, 'a'],
    ['that met a dead connection goes to the next', 'GET', 'ab', stale, 'ab'],
    ['that met one to the only backend gets a fresh one', 'GET', 'a', stale, 'aa'],
    ['that could do its work twice is sent once', 'POST', 'ab', stale, 'a'],
    ['whose body is gone is not sent again', 'GET', 'ab', gone, 'a'],
    ['that has part of an answer is not sent again', 'GET', 'ab', begun, 'a'],
    ['that got no answer in time goes to the next', 'GET', 'ab', silent, 'ab'],
    ['that got none from the only one is done', 'GET', 'a', silent, 'a'],
    ['that got none, and could do its work twice, is done', 'POST', 'ab', silent, 'a'],
    ['whose fresh connection died goes to the next', 'GET', 'ab', fresh, 'ab'],
    ['whose fresh connection to the only one died is done', 'GET', 'a', fresh, 'a'],
  ])('%s', async (_, method, ...row) => {
    const [letters, failed, expected] = row
    const { told, tried, heard } = start(letters, [fail(failed), answer(200)], { method })
    await settle()
    expect(tried()).toBe(expected)
    const repeated = expected.length > 1
    expect(told.slice(-2)).toEqual(repeated ? ['200', 'end'] : ['http://a', failed.kind])
    expect(heard).toEqual([['a', failed], ...(repeated ? [[expected.at(1), 200]] : [])])
  })

  it('is repeated once, not more', async () => {
    const { told, tried, heard } = start('abc', [fail(unreachable), fail(unreachable), answer(200)])
    await settle()
    expect(tried()).toBe('ab')
    expect(told).toEqual(['http://a', 'http://b', 'unreachable'])
    expect(heard.map(([host]) => host)).toEqual(['a', 'b'])
  })

  it.each([
    [0, 'a'],
    [2, 'abc'],
    [5, 'abcd'],
  ])('is repeated up to %i times, where that is configured', async (attempts, expected) => {
    const steps = Array.from({ length: 3 }, () => fail(unreachable))
    const { tried } = start('abcd', [...steps, answer(200)], { retry: { attempts, budget: 0.1 } })
    for (let turn = 0; turn < 3; turn++) await settle()
    expect(tried()).toBe(expected)
  })

  it('is not repeated where the budget is nothing, but on a fresh connection for one found dead', async () => {
    const retry = { attempts: 1, budget: 0 }
    const failing = start('ab', [fail(unreachable), answer(200)], { retry })
    const met = start('ab', [fail(stale), answer(200)], { retry })
    await settle()
    expect([failing.tried(), met.tried()]).toEqual(['a', 'ab'])
  })

  it('whose answer cannot be passed on was answered badly by its backend', () => {
    const { handle, heard } = start('a', [])
    handle.abort({ kind: 'broken', cause: 'bad fields' })
    expect(heard).toMatchObject([['a', { kind: 'broken', cause: 'bad fields', answerBegun: true }]])
  })

  it('tells the balancer the status of its answer, and nothing when it is given up', async () => {
    const answered = start('a', [answer(503)])
    await settle()
    expect(answered.heard).toEqual([['a', 503]])
    const given = start('a', [])
    expect(given.handle.abort()).toBe(true)
    given.handle.abort()
    expect(given.heard).toEqual([['a', 'abandoned']])
  })

  it('that is given up between two attempts is not sent again', async () => {
    let abort = (): boolean => false
    const { handle, tried, told } = start('ab', [
      (sink) => {
        sink.fail(stale)
        expect(abort()).toBe(true)
      },
    ])
    abort = () => handle.abort()
    await settle()
    expect(tried()).toBe('a')
    expect(told).toEqual(['http://a'])
  })

  it('that never reached its first backend says so when the second has not seen it either', async () => {
    const { handle, tried } = start('ab', [fail(unreachable)])
    await settle()
    expect(tried()).toBe('ab')
    handle.resume()
    expect(handle.abort()).toBe(true)
  })
})

describe('a request in line', () => {
  it('that is given up takes no place, and the next is sent', async () => {
    const { handle, forward, tried } = start('a', [], { connections: 1 })
    expect(forward().abort()).toBe(false)
    const next = forward()
    handle.abort()
    await settle()
    expect([tried(), next.abort()]).toEqual(['aa', true])
  })

  it('is refused when its time is over', async () => {
    const { handle, forward, tried, told } = start('a', [], { connections: 1 })
    forward({ responseTimeoutMs: 20 })
    await until(() => told.includes('connect_timeout'))
    handle.abort()
    await settle()
    expect(tried()).toBe('a')
  })
})
