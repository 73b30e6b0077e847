import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { eventually } from '../process/gateways.ts'
import { isAlive } from '../workers/workers.ts'
import { startChaos } from './run.ts'

const cleanups: (() => void)[] = []
afterAll(() => {
  for (const cleanup of cleanups) cleanup()
})

it('whatever fails and whoever misbehaves for half a minute, nothing is charged twice, lost, over a limit or answered wrongly', async () => {
  const { finished, end } = startChaos({ minutes: 0.5, seed: 20_261_122 })
  cleanups.push(end)
  const { code, written } = await finished
  expect(code, written).toBe(0)
}, 300_000)

/** Of a process, and theirs. */
function descendants(pid: number): number[] {
  const file = `/proc/${pid}/task/${pid}/children`
  if (!existsSync(file)) return []
  const children = readFileSync(file, 'utf8').split(' ').filter(Boolean).map(Number)
  return children.flatMap((child) => [child, ...descendants(child)])
}

it.skipIf(process.platform !== 'linux')(
  'a run that is killed leaves no process behind',
  async () => {
    const main = join(import.meta.dirname, 'run.ts')
    const run = spawn(process.execPath, [main, '--minutes', '1'], {
      stdio: 'ignore',
      env: { PATH: process.env['PATH'] },
    })
    cleanups.push(() => run.kill('SIGTERM'))
    let started: number[] = []
    await eventually(
      'Redis, sentinels, backends and gateways',
      () => {
        started = descendants(run.pid ?? 0)
        return started.length >= 1 + 5 + 3 + 2
      },
      60_000,
    )
    run.kill('SIGKILL')
    await eventually('the end of all', () => !started.some(isAlive))
  },
  90_000,
)
