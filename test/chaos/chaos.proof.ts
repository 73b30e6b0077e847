import { expect, it } from 'vitest'
import { playChaos } from './run.ts'

it('whatever fails and whoever misbehaves for half a minute, nothing is charged twice, lost, over a limit or answered wrongly', async () => {
  const { faults, report } = await playChaos({ minutes: 0.5, seed: 20_261_122 })
  expect(faults, report).toBe(0)
}, 300_000)
