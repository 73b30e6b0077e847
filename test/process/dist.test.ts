import { execFile } from 'node:child_process'
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pageFiles } from '../../src/admin/page-assets.ts'
import { keys } from '../support/gateway.ts'
import { temporaryFolder } from '../support/processes.ts'
import {
  call,
  configFile,
  endAll,
  eventually,
  rawBackend,
  redisServer,
  tollgate,
} from './gateways.ts'

const exec = promisify(execFile)
const root = join(import.meta.dirname, '..', '..')

afterAll(endAll)

describe('the build', () => {
  // A copy, so that a dist folder in the tree is neither used nor touched.
  const copy = temporaryFolder()
  const main = join(copy, 'dist', 'main.js')

  beforeAll(async () => {
    for (const name of ['src', 'config', 'package.json', 'tsconfig.json'])
      cpSync(join(root, name), join(copy, name), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
    await exec('npm', ['run', 'build'], { cwd: copy }).catch(({ stdout }: { stdout: string }) => {
      // The compiler complains on stdout, which the error's own message leaves out.
      throw new Error(stdout)
    })
  })

  it('holds the scripts that Redis runs beside the program that sends them', () => {
    for (const name of ['take.lua', 'beat.lua'])
      expect(existsSync(join(copy, 'dist', 'quota', 'authorities', name))).toBe(true)
  })

  it('holds the files of the pages just as they are written', () => {
    const files = ['index.html', ...pageFiles].map((file) => `admin/page/${file}`)
    for (const file of [...files, 'replay/html/page/report.js', 'replay/html/page/report.css'])
      expect(readFileSync(join(copy, 'dist', file), 'utf8'), file).toBe(
        readFileSync(join(root, 'src', file), 'utf8'),
      )
  })

  it('tells its version and takes the example configuration', async () => {
    const version = await exec(process.execPath, [main, '--version'])
    expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
    const example = join(copy, 'config', 'gateway.yaml')
    const { stdout } = await exec(process.execPath, [main, 'check', '--config', example])
    expect(stdout).toContain('gateway.yaml: ok')
  })

  it('keeps its counts in a file over a restart, written by a thread of its own', async () => {
    const backend = await rawBackend()
    const store = `store: { file: "${join(temporaryFolder(), 'store.db')}" }`
    const file = configFile(backend.url, { store })
    for (const dayLeft of [9_999, 9_998]) {
      const started = tollgate(['start', '--config', file], { main })
      const origin = new URL(await started.listening('tollgate')).origin
      const answer = await call(`${origin}/v1/pets`, keys.pro)
      expect(answer.headers.get('ratelimit')).toContain(`"day";r=${dayLeft};`)
      started.signal('SIGTERM')
      expect((await started.finished).code).toBe(0)
    }
  })

  it('starts, counts in Redis, forwards, and stops', async () => {
    const [redis, backend] = await Promise.all([redisServer(), rawBackend()])
    const file = configFile(backend.url, { store: `store: { redis: "${redis.url}" }` })
    const started = tollgate(['start', '--config', file], { main })
    const origin = new URL(await started.listening('tollgate')).origin
    const admin = await started.listening('admin')
    await eventually('the store is in use', async () =>
      (await (await fetch(`${admin}/readyz`)).text()).includes('"available"'),
    )
    const answer = await call(`${origin}/v1/pets`, keys.pro)
    expect([answer.status, answer.body]).toEqual([200, 'ok'])
    expect(answer.headers.get('x-ratelimit-remaining')).toBe('299')
    started.signal('SIGTERM')
    expect((await started.finished).code).toBe(0)
  })
})
