import { execFile } from 'node:child_process'
import { copyFileSync, readdirSync, rmSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { temporaryFolder } from '../support/processes.ts'
import { again, clientsBlock, configFile, decided, eventually, gatewayProcess } from './gateways.ts'
import { startRawBackend, tally, times, startTollgate, gatewayHere } from './gateways.ts'
import type { GatewayProcess } from './gateways.ts'

const exec = promisify(execFile)
const key = 'tg_test_remembered_0123456789'

const config = (upstream: string, file: string, workers = 1): string =>
  configFile(upstream, {
    server: `server: { listen: "127.0.0.1:0", workers: ${workers} }`,
    store: `store: { file: "${file}" }`,
    clients: clientsBlock([{ id: 'acme', keys: [key], perMinute: 500, perDay: 1000 }]),
  })
type Started = Pick<GatewayProcess, 'call'>
const admit = async (gateway: Started, count: number): Promise<void> => {
  const answers = await Promise.all(times(count, () => decided(() => gateway.call(key))))
  expect(tally(answers)).toEqual({ '200': count })
}
/** Of the day: a restart may take longer than the minute lasts. */
const left = async (gateway: Started, window: 'minute' | 'day' = 'day'): Promise<number> => {
  const { headers } = await decided(() => gateway.call(key))
  const found = new RegExp(`"${window}";r=(\\d+);`).exec(headers.get('ratelimit') ?? '')
  return Number(found?.[1])
}

/** What a crash at this moment would leave of acme. */
function dayTakenIn(path: string): unknown {
  const copy = join(temporaryFolder(), 'left.db')
  for (const part of ['', '-wal']) copyFileSync(path + part, copy + part)
  const database = new DatabaseSync(copy)
  const row = database.prepare("SELECT day_taken FROM quota WHERE client = 'acme'").get()
  database.close()
  return row?.['day_taken']
}

describe.concurrent('what a gateway without Redis has counted', () => {
  it('is there after a restart, to the last request', async () => {
    const backend = await startRawBackend()
    const file = config(backend.url, join(temporaryFolder(), 'made', 'store.db'))
    const first = await gatewayHere(file)
    await minuteWithAtLeast(25_000)
    await admit(first, 40)
    await first.stop()
    const second = await gatewayHere(file)
    expect(await left(second, 'minute')).toBe(459)
    expect(await left(second)).toBe(958)
  })

  it('admits nothing twice though it is killed again and again under load, and strands little', async () => {
    const limit = 240
    const clients = clientsBlock([{ id: 'acme', keys: [key], perMinute: limit, perDay: limit }])
    const backend = await startRawBackend()
    const store = `store: { file: "${join(temporaryFolder(), 'store.db')}" }`
    const file = configFile(backend.url, { store, clients })
    let [cutOff, refused] = [0, 0]
    const serveUntil = async (isEnough: () => boolean): Promise<void> => {
      const gateway = await gatewayProcess(file)
      const stop = again(4, async () => {
        const answer = await gateway.call(key).catch(() => void (cutOff += 1))
        if (answer?.status === 429) refused += 1
      })
      await eventually('enough of the load', isEnough)
      const stopped = stop()
      gateway.signal('SIGKILL')
      await stopped
    }
    for (const count of [60, 120]) await serveUntil(() => backend.requests.length >= count)
    await serveUntil(() => refused > 0)
    expect(backend.requests.length).toBeLessThanOrEqual(limit)
    expect(backend.requests.length).toBeGreaterThanOrEqual(limit - 2 * (limit / 16) - cutOff)
  })

  it('is kept in data/tollgate.db below the working directory unless told otherwise', async () => {
    const backend = await startRawBackend()
    const text = configFile(backend.url, { store: '' })
    const cwd = temporaryFolder()
    const gateway = startTollgate(['start', '--config', text], { cwd })
    await gateway.listening('admin')
    expect(readdirSync(join(cwd, 'data'))).toContain('tollgate.db')
    gateway.signal('SIGTERM')
    const { code, stderr } = await gateway.finished
    expect(code).toBe(0)
    // Of a part of Node.js that is not final in all its versions.
    expect(stderr).not.toContain('ExperimentalWarning')
    expect(readdirSync(join(cwd, 'data'))).toEqual(['tollgate.db'])
  })
})

describe.concurrent('a store.file', () => {
  it.each([1, 2])(
    'that is removed with its folder under a running gateway is written anew, and counts are there after a restart (%i processes)',
    async (workers) => {
      const backend = await startRawBackend()
      const folder = join(temporaryFolder(), 'made')
      const path = join(folder, 'store.db')
      const file = config(backend.url, path, workers)
      const first = workers === 1 ? await gatewayHere(file) : await gatewayProcess(file)
      await admit(first, 20)
      rmSync(folder, { recursive: true })
      await eventually('the line', () => first.logged('storeFileRestored').length === 1)
      await admit(first, 20)
      // Removed again: nothing comes between that and the stop.
      rmSync(path)
      if ('stop' in first) await first.stop()
      else {
        first.signal('SIGTERM')
        expect((await first.finished).code).toBe(0)
      }
      const rest = await left(await gatewayHere(config(backend.url, path)))
      expect(rest).toBeLessThanOrEqual(959)
      // What a worker holds whose supervisor was silent for long is nobody's until the window ends: a lease.
      const held = first.logged('storeLost').length > 0 ? workers * (500 / 16) : 0
      expect(rest).toBeGreaterThanOrEqual(959 - held)
    },
  )

  it('that is damaged is set aside, which is logged, and the gateway starts', async () => {
    const backend = await startRawBackend()
    const folder = temporaryFolder()
    const path = join(folder, 'store.db')
    await (await gatewayHere(config(backend.url, path))).stop()
    truncateSync(path, 4_096)
    const gateway = await gatewayHere(config(backend.url, path))
    const [line] = gateway.logged('storeFileSetAside')
    expect(line).toMatchObject({ level: 'error' })
    expect(readdirSync(folder)).toContain(String(line?.['keptAs']).slice(folder.length + 1))
    await admit(gateway, 1)
  })

  it('that another gateway uses keeps a second one from starting, until the first is gone', async () => {
    const backend = await startRawBackend()
    const path = join(temporaryFolder(), 'store.db')
    const file = config(backend.url, path)
    const first = await gatewayProcess(file)
    await expect(gatewayHere(file)).rejects.toThrow(
      `store.file ${path} is in use by another gateway; give each its own store.file, or share one Redis with store.redis`,
    )
    await admit(first, 3)
    first.signal('SIGKILL')
    await first.finished
    await admit(await gatewayHere(file), 3)
  })
})

describe.concurrent('a store.file that can no longer be written', () => {
  const unsavedSeconds = (gateway: GatewayProcess): Promise<number> =>
    gateway.metric('tollgate_counters_unsaved_seconds')

  it.each([1, 2])(
    'is told, in the log once; counting goes on, and is kept when it can (%i processes)',
    async (workers) => {
      const backend = await startRawBackend()
      const path = join(temporaryFolder(), 'store.db')
      const first = await gatewayProcess(config(backend.url, path, workers))
      await admit(first, 5)
      await eventually('they are kept', () => Number(dayTakenIn(path)) >= 5)
      await eventually('all is kept', async () => (await unsavedSeconds(first)) === 0)
      expect(await first.check('store')).toEqual({
        status: 200,
        name: 'store',
        ok: true,
        reason: 'embedded',
      })
      // The limit of the process on the size of files is what a full disk is to it: writes fail.
      const limitFiles = (bytes: string) =>
        exec('prlimit', ['--pid', String(first.pid), `--fsize=${bytes}:`])
      await limitFiles('0')
      const sinceMs = Date.now()
      await admit(first, 50)
      await eventually('the line', () => first.logged('countersNotKept').length > 0)
      const fault = `store\\.file ${path} cannot be .*; `
      expect(first.logged('countersNotKept')[0]?.['error']).toMatch(new RegExp(fault))
      await sleep(2_000)
      await admit(first, 5)
      expect(first.logged('countersNotKept')).toHaveLength(1)
      expect(first.logged('countersKept')).toEqual([])
      expect(await unsavedSeconds(first)).toBeGreaterThan(2)
      const told = await first.check('store')
      expect(told).toMatchObject({ status: 200, ok: true, reason: 'embedded' })
      const said = new RegExp(`^counters are not kept since (\\S+Z), .*: ${fault}`).exec(
        told.warning ?? '',
      )
      const toldMs = Date.parse(said?.[1] ?? '')
      expect(toldMs).toBeGreaterThanOrEqual(sinceMs - 1_000)
      expect(toldMs).toBeLessThanOrEqual(Date.now())
      await limitFiles('unlimited')
      await eventually('the line of its end', () => first.logged('countersKept').length > 0)
      expect(first.logged('countersNotKept')).toHaveLength(1)
      // The totals of the day are kept a moment later.
      await eventually('all of it kept', async () => (await unsavedSeconds(first)) === 0)
      expect(await first.check('store')).not.toHaveProperty('warning')
      first.signal('SIGKILL')
      await first.finished
      const rest = await left(await gatewayHere(config(backend.url, path)))
      // What was ahead is gone, and what workers had leased and not yet used.
      expect(rest).toBeLessThanOrEqual(1000 - 61)
      expect(rest).toBeGreaterThanOrEqual(1000 - 61 - (1 + workers) * (500 / 16))
    },
  )
})
