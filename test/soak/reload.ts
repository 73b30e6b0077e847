/**
 * `npm run soak:reload`: 50 reloads in a minute under load, changed, bad and unchanged files by turns; then 200 in a row,
 * and what that leaves in the memory. For one process and for four; about four minutes. Exit code 1: something does not hold.
 */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { endAll } from '../support/ending.ts'
import { eventually } from '../process/gateways.ts'
import { keptConnections, marksOf, reloading } from '../process/reloads.ts'

const RELOADS = 50
const EVERY_MS = 1_200
const CALLERS = 16
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
  const { gateway, file, write, hangUp } = await reloading(workers)
  const load = keptConnections(gateway.origin, CALLERS)
  await eventually('answers', () => load.seen.answers > CALLERS)
  for (let mark = 1; mark <= RELOADS; mark++) {
    const startedMs = performance.now()
    const isBad = mark % 3 === 0
    if (isBad) writeFileSync(file, 'plans: nonsense')
    else if (mark % 3 === 1) write(mark)
    await hangUp(isBad ? 'configRefused' : 'configTaken')
    await sleep(Math.max(0, startedMs + EVERY_MS - performance.now()))
  }
  const seen = await load.stop()
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
  const { failures, answers, late, connections, marks } = seen
  console.log(
    `${workers} process(es): ${answers} requests, ${failures.length} failed, ${late} while the store was late; ${connections} connections for ${CALLERS} callers; ${marks.size} revisions seen`,
  )
  console.log(
    `  RSS after ${WARM_UP} reloads ${before.toFixed(1)} MiB, after ${IN_A_ROW} ${after.toFixed(1)} MiB (${(100 * growth).toFixed(1)} %)`,
  )
  return [
    ...failures.slice(0, 5),
    ...(connections === CALLERS ? [] : [`${connections - CALLERS} connections were closed`]),
    ...(growth <= MOST_GROWTH ? [] : [`memory has grown by ${(100 * growth).toFixed(1)} %`]),
  ].map((fault) => `${workers} process(es): ${fault}`)
}

const faults: string[] = []
for (const workers of [1, 4]) faults.push(...(await soak(workers)))
await endAll()
for (const fault of faults) console.error(fault)
process.exitCode = faults.length === 0 ? 0 : 1
