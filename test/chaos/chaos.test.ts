import { afterAll, expect, it } from 'vitest'
import { startChaos } from './run.ts'

const cleanups: (() => void)[] = []
afterAll(() => {
  for (const cleanup of cleanups) cleanup()
})

it('whatever fails and whoever misbehaves for a minute, nothing is charged twice, lost, over a limit or answered wrongly', async () => {
  const { finished, end } = startChaos({ minutes: 1, seed: 20_261_122 })
  cleanups.push(end)
  const { code, written } = await finished
  expect(code, written).toBe(0)
}, 300_000)
