/**
 * `npm run soak:reload`: what 200 reloads in a row leave in the memory of one process and of four; about two minutes. Exit
 * code 1: it has grown. What clients notice of a reload is in test/process/reload.test.ts.
 */
import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { endAll } from '../support/ending.ts'
import { marksOf, reloading } from '../process/reloads.ts'

const IN_A_ROW = 200
const MOST_GROWTH = 0.05
/** Of the 200, after which the heap has its size. */
const WARM_UP = 50

/** MiB, of a process and its children. */
function residentMiB(pid: number): number {
  const args = ['-o', 'rss=', '--pid', String(pid), '--ppid', String(pid)]
  const kib = execFileSync('ps', args, { encoding: 'utf8' }).trim().split('\n')
  return kib.reduce((sum, each) => sum + Number(each), 0) / 1024
}

/** The least of some looks: what a collection leaves. */
async function settledMiB(pid: number): Promise<number> {
  let least = Infinity
  for (let look = 0; look < 20; look++) {
    least = Math.min(least, residentMiB(pid))
    await sleep(250)
  }
  return least
}

async function soak(workers: number): Promise<string[]> {
  const { gateway, write, hangUp } = await reloading(workers)
  let before = 0
  for (let count = 1; count <= IN_A_ROW; count++) {
    write(1_000 + count)
    await hangUp('configTaken')
    // Memory that serves no requests is not what is asked about.
    await marksOf(gateway.origin, 5)
    if (count === WARM_UP) before = await settledMiB(gateway.pid)
  }
  const after = await settledMiB(gateway.pid)
  const growth = after / before - 1
  console.log(
    `${workers} process(es): RSS after ${WARM_UP} reloads ${before.toFixed(1)} MiB, after ${IN_A_ROW} ${after.toFixed(1)} MiB (${(100 * growth).toFixed(1)} %)`,
  )
  return growth <= MOST_GROWTH ? [] : [`${workers} process(es): memory has grown`]
}

const faults: string[] = []
for (const workers of [1, 4]) faults.push(...(await soak(workers)))
await endAll()
for (const fault of faults) console.error(fault)
process.exitCode = faults.length === 0 ? 0 : 1
