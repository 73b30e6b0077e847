/** The latest decisions of one process: what they hold. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { RecentDecisions, type Decided } from '../../src/live/recent.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

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
