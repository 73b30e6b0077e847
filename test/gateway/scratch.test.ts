import { expect, it } from 'vitest'
import { createScratch } from '../../src/gateway/scratch.ts'
import { readBlocks } from '../support/serving.ts'

// What it decides is shown by test/explain and test/replay.
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
  const clock = { epochMs: Date.now, nowMs: Date.now }
  for (let asked = 0; asked < 3; asked += 1) await createScratch({ config: same, clock }).close()
  expect(compiled).toBe(1)
  await createScratch({ config: { ...same }, clock }).close()
  expect(compiled).toBe(2)
})
