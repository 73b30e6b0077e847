/** What several workers say together, and what is known where some do not answer. */
import { describe, expect, it } from 'vitest'
import { embeddedHealth, type StoreHealth } from '../../../src/state/contract.ts'
import { readTokenIn, recentIn, seenBy } from '../../../src/server/gateway/worker-link.ts'
import { standingsIn } from '../../../src/server/gateway/worker-link.ts'
import type { WorkerFacts, WorkerLink } from '../../../src/server/gateway/worker-link.ts'

const health = (change: Partial<StoreHealth>): StoreHealth => ({
  available: true,
  cause: undefined,
  refusal: undefined,
  warning: undefined,
  ...change,
})
const backend = (state: 'up' | 'down' | 'ejected') => ({
  name: 'http://a',
  state,
  fault: undefined,
  since: undefined,
  isUsable: state === 'up',
})
const decision = (id: string, at: string) => ({ id, at }) as never

interface Made extends Partial<Omit<WorkerLink, 'facts'>> {
  readonly facts?: Partial<WorkerFacts>
  /** Its answers by question; it does not answer others. */
  readonly answers?: Readonly<Record<string, unknown>>
}

const link = ({ facts, answers, ...more }: Made = {}): WorkerLink => ({
  number: 1,
  pid: 1,
  restarts: 0,
  now: undefined,
  state: 'listening',
  sinceMs: 1,
  facts: {
    store: embeddedHealth,
    keySetFault: undefined,
    logFault: undefined,
    shed: 'nothing',
    backends: [],
    ...facts,
  },
  questions: {
    call: (name) =>
      answers?.[name] === undefined
        ? Promise.reject(new Error('does not answer'))
        : Promise.resolve(answers[name] as never),
  },
  ...more,
})
const withStore = (change: Partial<StoreHealth>, more: Made = {}) =>
  link({ ...more, facts: { store: health(change) } })

describe('several workers', () => {
  it('see the store as the worst-off does: refused, away, with a warning', () => {
    const [well, warned, away, refused] = [
      withStore({}),
      withStore({ warning: 'evicts' }),
      withStore({ available: false, cause: 'ECONNREFUSED' }),
      withStore({ available: false, refusal: 'wrong password' }),
    ]
    expect(seenBy([]).store).toEqual(health({}))
    expect(seenBy([link()]).store).toEqual(health({}))
    expect(seenBy([well, warned]).store).toEqual(health({ warning: 'evicts' }))
    expect(seenBy([warned, away, well]).store).toMatchObject({ cause: 'ECONNREFUSED' })
    expect(seenBy([away, refused]).store).toMatchObject({ refusal: 'wrong password' })
  })

  it('are heard while they take requests, and those that end only where no other is left', () => {
    const away = { available: false, cause: 'away' }
    const draining = withStore(away, { state: 'draining' })
    expect(seenBy([draining, withStore({})]).store).toEqual(health({}))
    expect(seenBy([draining]).store).toMatchObject({ cause: 'away' })
    const starting = withStore(away, { state: 'starting', sinceMs: undefined })
    expect(seenBy([starting]).store).toEqual(health({}))
    expect(
      seenBy([link({ state: 'starting' }), link({ facts: { shed: 'anonymous' } })]).sheds,
    ).toEqual(['anonymous'])
  })

  it('report the fault of one without any key first, and of each backend the worst', () => {
    const fault = (hasKeys: boolean) => ({ cause: String(hasKeys), hasKeys })
    const links = [true, false].map((hasKeys) => link({ facts: { keySetFault: fault(hasKeys) } }))
    expect(seenBy([link(), ...links]).keySetFault).toEqual(fault(false))
    expect(seenBy([link()]).keySetFault).toBe(undefined)
    const seen = (['up', 'ejected', 'down'] as const).map((state) =>
      link({ facts: { backends: [backend(state)] } }),
    )
    expect(seenBy(seen).backends).toEqual([backend('ejected')])
  })

  it('answer together, newest first, and those that do not are named; one that never served is not asked', async () => {
    const of = (...decisions: never[]) => ({ recent: decisions })
    const older = decision('older', '2026-01-01T00:00:00.000Z')
    const newer = decision('newer', '2026-01-01T00:00:01.000Z')
    const links = [
      link({ answers: of(older) }),
      link({ number: 2, answers: of(newer) }),
      link({ number: 3 }),
      link({ number: 4, state: 'starting', sinceMs: undefined }),
    ]
    const query = { client: undefined, refused: false, id: undefined }
    expect(await recentIn(links, query)).toEqual({
      requests: [newer, older],
      missing: ['worker 3 does not answer'],
    })
  })

  it('have numbers in what they say of a caller, and a process alone has none', async () => {
    const answers = { standing: { taken: 2, strikes: 1 } }
    const caller = { clientId: 'acme', keyId: 'acme-1' }
    const standing = async (...links: WorkerLink[]) => (await standingsIn(links, caller)).answers
    const own = link({ number: 7, answers })
    expect(await standing(own, link())).toEqual([{ taken: 2, strikes: 1, worker: 7 }])
    expect(await standing(own)).toStrictEqual([{ taken: 2, strikes: 1 }])
  })

  it('read a token by one that takes requests; where none ever did, nobody can', async () => {
    const reads = (code: string) => ({ readToken: { refused: { code } } })
    const draining = link({ state: 'draining', answers: reads('draining') })
    const listening = link({ answers: reads('listening') })
    expect(await readTokenIn([draining, listening], 't')).toEqual({
      refused: { code: 'listening' },
    })
    expect(await readTokenIn([draining], 't')).toEqual({ refused: { code: 'draining' } })
    await expect(
      readTokenIn([link({ sinceMs: undefined, state: 'starting' })], 't'),
    ).rejects.toThrow('no worker takes requests')
  })
})
