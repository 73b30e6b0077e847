import { expect, it, onTestFinished } from 'vitest'
import { startChaos } from './run.ts'

it('whatever fails and whoever misbehaves for half a minute, nothing is charged twice, lost, over a limit or answered wrongly', async () => {
  const { finished, end } = startChaos({ minutes: 0.5, seed: 20_261_122 })
  onTestFinished(end)
  const { code, written } = await finished
  expect(code, written).toBe(0)
}, 300_000)
