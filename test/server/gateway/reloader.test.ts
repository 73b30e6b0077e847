import { expect, it } from 'vitest'
import { parseConfigText } from '../../../src/config/clients/load.ts'
import type { Config } from '../../../src/config/config.ts'
import { Reloader } from '../../../src/server/gateway/reloader.ts'
import { createScratch } from '../../../src/server/gateway/scratch.ts'
import { createLog } from '../../../src/core/record/log.ts'
import { configText } from '../../support/gateway.ts'
import { readBlocks } from '../../support/serving.ts'

const text = configText({ upstreams: ['http://127.0.0.1:9'] })
const revised = (mark: number): Config =>
  parseConfigText(`${text}# ${mark}\n`, { file: 'test.yaml', env: {} })

/** One whose files are read, and whose processes are prepared, when the test says so. */
function slow() {
  const loads: PromiseWithResolvers<Config>[] = []
  const did: string[] = []
  const prepared = Promise.withResolvers<void>()
  const reloader = new Reloader({
    config: revised(0),
    load: () => {
      loads.push(Promise.withResolvers())
      return loads.at(-1)?.promise ?? revised(0)
    },
    prepare: async ({ revision }) => {
      await prepared.promise
      return {
        commit: () => void did.push(`commit ${revision}`),
        abort: () => void did.push(`abort ${revision}`),
      }
    },
    log: createLog({ level: 'silent', access: false }),
    look: async () => [],
  })
  const load = async (count: number): Promise<PromiseWithResolvers<Config>> => {
    await expect.poll(() => loads.length).toBe(count)
    return loads[count - 1] ?? Promise.withResolvers()
  }
  return { reloader, load, did, prepared }
}

it('wishes for a configuration are heard one at a time, and a crowd that comes meanwhile costs one more', async () => {
  const { reloader, load, did, prepared } = slow()
  const first = reloader.reload()
  const loading = await load(1)
  const crowd = Array.from({ length: 50 }, () => reloader.reload())
  const dry = reloader.reload({ dryRun: true })
  loading.resolve(revised(1))
  // What came while the first was prepared is of the crowd, too: it is read after all of them have asked.
  crowd.push(reloader.reload())
  prepared.resolve()
  const { revision } = await first
  ;(await load(2)).resolve(revised(2))
  expect(new Set(await Promise.all(crowd)).size).toBe(1)
  expect(reloader.counts.taken).toBe(2)
  ;(await load(3)).resolve(revised(3))
  expect((await dry).outcome).toBe('wouldBeTaken')
  expect(did).toEqual([`commit ${revision}`, `commit ${reloader.config.revision}`])
  expect(reloader.config.revision).toBe(revised(2).revision)
})

it('nothing is taken any more once the gateway stops, not even what is prepared by then', async () => {
  const { reloader, load, did, prepared } = slow()
  const outcome = reloader.reload()
  ;(await load(1)).resolve(revised(1))
  reloader.close()
  prepared.resolve()
  expect(await outcome).toMatchObject({ outcome: 'refused', revision: revised(0).revision })
  expect(did).toEqual([`abort ${revised(1).revision}`])
})

// What it decides is shown by test/insight/explain and test/tools/replay.
it('a scratch policy takes the routes that another of the same configuration has compiled', async () => {
  const config = readBlocks(['http://127.0.0.1:1'], {})
  let compiled = 0
  const routes = Object.assign([...config.routes], {
    [Symbol.iterator]() {
      compiled += 1
      return config.routes.values()
    },
  })
  const same = { ...config, routes }
  const now = Date.now
  for (let asked = 0; asked < 3; asked += 1) await createScratch({ config: same, now }).close()
  expect(compiled).toBe(1)
  await createScratch({ config: { ...same }, now }).close()
  expect(compiled).toBe(2)
})
