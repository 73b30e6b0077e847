import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { watchWorkers } from '../../src/workers/watchdog.ts'
import { temporaryFile } from '../support/processes.ts'
import {
  configFile,
  eventually,
  startRawBackend,
  startTollgate,
  withOrigins,
  type GatewayProcess,
} from '../process/gateways.ts'
import { expectServed, metricPage, startLoad, workerBlocks, workerPids } from './workers.ts'

const [EVERY_MS, BEATS] = [300, 5]
const SILENT_MS = EVERY_MS * BEATS
const wide = { id: 'wide', keys: ['tg_wide'], perMinute: 1_000_000, perDay: 1_000_000 }
const sources = join(import.meta.dirname, '..', '..', 'src')

/** A gateway of two workers whose watchdog has shorter bounds than `tollgate start` gives it. */
async function watched(upstream: string): Promise<GatewayProcess> {
  const file = configFile(upstream, workerBlocks(2, [wide]))
  const main = temporaryFile(
    'main.mjs',
    `import { loadConfig } from '${sources}/clients/load.ts'
    import { createSupervisor } from '${sources}/workers/supervisor.ts'
    import { createLog } from '${sources}/observability/log.ts'
    const config = await loadConfig('${file}', process.env)
    const supervisor = createSupervisor(config, {
      log: createLog(config.log),
      version: '1',
      entry: '${sources}/main.ts',
      watchdog: { everyMs: ${EVERY_MS}, silentBeats: ${BEATS} },
    })
    const { listen, admin } = await supervisor.listen()
    console.log('tollgate listening on http://127.0.0.1:' + listen.port)
    console.log('admin listening on http://127.0.0.1:' + admin.port)`,
  )
  return withOrigins(startTollgate([], { main }))
}
const pidOf = (gateway: GatewayProcess, number: number): number =>
  workerPids(gateway).get(number) ?? 0

describe('a worker', () => {
  let gateway: GatewayProcess
  beforeAll(async () => void (gateway = await watched((await startRawBackend()).url)))

  it('that stood still together with its supervisor, or answers again in time, does not hang', async () => {
    const before = workerPids(gateway)
    const all = [gateway.pid, ...before.values()]
    for (const pid of all) process.kill(pid, 'SIGSTOP')
    await sleep(1.5 * SILENT_MS)
    for (const pid of all) process.kill(pid, 'SIGCONT')
    await sleep(EVERY_MS)
    process.kill(pidOf(gateway, 1), 'SIGSTOP')
    await sleep(EVERY_MS)
    process.kill(pidOf(gateway, 1), 'SIGCONT')
    await sleep(1.5 * SILENT_MS)
    expect(gateway.logged('workerHung')).toEqual([])
    expect(workerPids(gateway)).toEqual(before)
    expect(await gateway.metric('tollgate_worker_restarts_total')).toBe(0)
  })

  it('whose event loop hangs is killed and started again, while the others serve', async () => {
    const [pid, other] = [pidOf(gateway, 1), pidOf(gateway, 2)]
    // Kept-alive connections, so that callers stay with the worker they have.
    const load = startLoad(gateway.origin, { key: 'tg_wide', callers: 0, keepAlive: 6 })
    await eventually('load', () => load.answers.length > 100)
    process.kill(pid, 'SIGSTOP')
    await eventually('the finding', () => gateway.logged('workerHung').length === 1)
    expect(gateway.logged('workerHung')).toMatchObject([
      { level: 'error', worker: 1, pid, silentMs: SILENT_MS },
    ])
    await eventually('worker 1 again', () => pidOf(gateway, 1) !== pid)
    expect(gateway.logged('workerCrashed')).toMatchObject([
      { worker: 1, pid, cause: 'signal SIGKILL' },
    ])
    const answered = load.answers.length
    await eventually('more answers', () => load.answers.length > answered + 100)
    await load.stop()
    // Of each caller of that worker the request under way, and at most one on a connection that the kernel still put into its queue.
    expect(load.errors.length).toBeLessThanOrEqual(12)
    expectServed(load.answers)
    const page = await metricPage(gateway)
    expect(page.get('tollgate_worker_restarts_total')).toBe(1)
    expect(page.get('tollgate_workers')).toBe(2)
    expect(pidOf(gateway, 2)).toBe(other)
    expect(gateway.logged('workerHung')).toHaveLength(1)
  })
})

describe('the watchdog', () => {
  /** Answers to no beat. */
  class Silent {
    beats = 0
    pardons = 0
    beat = (): number => this.beats++
    pardon = (): void => {
      this.beats = Math.min(this.beats, 1)
      this.pardons += 1
    }
  }

  it('tells once of a worker that is silent for so many beats', async () => {
    const silent = new Silent()
    const hung: Silent[] = []
    const stop = watchWorkers(
      { everyMs: 50, silentBeats: 5 },
      () => [silent],
      (worker) => hung.push(worker),
    )
    await expect.poll(() => silent.beats, { timeout: 10_000 }).toBeGreaterThan(10)
    stop()
    // Once more each time that it was late itself, as a busy machine makes it.
    expect(hung).toContain(silent)
    expect(hung.length).toBeLessThanOrEqual(1 + silent.pardons)
  })

  it('tells of nobody while it is late itself', async () => {
    const silent = new Silent()
    const hung: Silent[] = []
    let beats = 0
    const stop = watchWorkers(
      { everyMs: 20, silentBeats: 5 },
      () => {
        beats++
        // Holds up the event loop beyond the next beat.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60)
        return [silent]
      },
      (worker) => hung.push(worker),
    )
    await expect.poll(() => beats, { timeout: 10_000 }).toBeGreaterThan(15)
    stop()
    expect(hung).toEqual([])
  })
})
