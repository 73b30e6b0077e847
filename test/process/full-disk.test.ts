/** A log on a disk that is full: the gateway serves on, says so, and writes what has waited when there is room. */
import { execFile } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { workerPids } from '../server/workers/workers.ts'
import { temporaryFolder } from '../support/processes.ts'
import { clientsBlock, configFile, eventually, gatewayProcess } from './gateways.ts'
import { startRawBackend } from './gateways.ts'

const exec = promisify(execFile)
const key = 'tg_test_full_disk_0123456789'
const REQUESTS = 15

describe('a log on a full disk', () => {
  // The limit of a process on the size of its files is what a full disk is to it: a part is written, then writes fail.
  it.each([1, 2])('is gone on with when there is room (%i processes)', async (workers) => {
    const backend = await startRawBackend()
    const logFile = join(temporaryFolder(), 'log')
    const file = configFile(backend.url, {
      server: `server: { listen: "127.0.0.1:0", workers: ${workers} }`,
      clients: clientsBlock([{ id: 'acme', keys: [key], perMinute: 10_000 }]),
    })
    const gateway = await gatewayProcess(file, { logFile })
    // Each process writes its own lines.
    const pids = [gateway.pid, ...(workers === 1 ? [] : workerPids(gateway).values())]
    const limitFiles = (bytes: number | string) =>
      Promise.all(pids.map((pid) => exec('prlimit', ['--pid', `${pid}`, `--fsize=${bytes}:`])))
    const ask = async (): Promise<void> => {
      for (let at = 0; at < REQUESTS; at++)
        expect((await gateway.call(key)).status).not.toBeGreaterThan(503)
    }
    const logWarning = async () => {
      const { status, warning } = await gateway.check('log')
      expect(status).toBe(200)
      return warning
    }

    expect(await logWarning()).toBeUndefined()
    // The first line that comes is cut in its midst.
    await limitFiles(statSync(logFile).size + 100)
    await ask()
    // A worker says once a second how it is.
    const why = /cannot be written \(EFBIG\).*make room/
    await eventually('it is said why', async () => why.test((await logWarning()) ?? ''))
    expect(gateway.logged('access')).toEqual([])
    expect(await gateway.metric('tollgate_log_failing')).toBe(1)

    await limitFiles('unlimited')
    // Nothing is asked for meanwhile: they are written all the same.
    await eventually('lines come', () => gateway.logged('access').length === REQUESTS)
    await eventually('all is well', async () => (await logWarning()) === undefined)
    await ask()
    await eventually('all lines come', () => gateway.logged('access').length === 2 * REQUESTS)
    expect(await gateway.metric('tollgate_log_lines_dropped_total')).toBe(0)
    const broken = readFileSync(logFile, 'utf8')
      .trimEnd()
      .split('\n')
      .filter((text) => text !== '' && !text.endsWith('}'))
    expect(broken).toHaveLength(1)
    gateway.signal('SIGTERM')
    expect((await gateway.finished).code).toBe(0)
    expect(gateway.logged('listening')).toHaveLength(2)
  })
})
