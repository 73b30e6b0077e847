/** The latest decisions of one process: what they hold. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { RecentDecisions, type Decided } from '../../src/live/recent.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const all = { client: undefined, refused: true, id: undefined }
const refused = (caller: Decided['caller']): Decided =>
  ({
    id: '',
    startedMs: 0,
    request: {},
    refusal: 'x',
    caller,
    terms: { revision: '' },
  }) as unknown as Decided
const callerOf = (keyId: string) => ({ clientId: keyId, keyId, plan: 'free' })

it('keep the refusal of a client whatever comes without a credential, and beside one key that goes on and on', () => {
  const recent = new RecentDecisions(1)
  const keys = Array.from({ length: 40 }, (_, at) => `key-${at}`)
  for (const key of keys) recent.note(refused(callerOf(key)), 1, undefined)
  for (let at = 0; at < 5_000; at++) recent.note(refused(undefined), 1, undefined)
  const kept = () => keys.filter((client) => recent.find({ ...all, client }).length > 0).length
  expect(kept()).toBe(40)
  for (let at = 0; at < 5_000; at++) recent.note(refused(callerOf('noisy')), 1, undefined)
  expect(kept()).toBeGreaterThan(25)
})

it('keep the path of a request, and nothing else of a long target', () => {
  const recent = new RecentDecisions(1)
  const heldBytes = (): number => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = heldBytes()
  for (let at = 0; at < 1_000; at++) {
    const url = Buffer.from(`/v1/a-path-of-some-length/${at}?${'q'.repeat(8_000)}`).toString()
    const path = url.slice(0, url.indexOf('?'))
    const decided = { id: '', startedMs: 0, request: { url }, path, terms: { revision: '' } }
    recent.note(decided as Decided, 1, undefined)
  }
  // The targets are 8 MB.
  expect(heldBytes() - before).toBeLessThan(4_000_000)
  const [{ path } = {}] = recent.find({ client: undefined, refused: false, id: undefined })
  expect(path).toMatch(/^\/v1\/a-path-of-some-length\/\d+$/)
})
