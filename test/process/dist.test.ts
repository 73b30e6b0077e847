import { execFile } from 'node:child_process'
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { pageFiles } from '../../src/admin/page-assets.ts'
import { keys } from '../support/gateway.ts'
import { temporaryFolder } from '../support/processes.ts'
import { sharedRedis } from '../support/redis-server.ts'
import {
  call,
  configFile,
  decided,
  eventually,
  quotaInRedis,
  startRawBackend,
  startTollgate,
} from './gateways.ts'

const exec = promisify(execFile)
const root = join(import.meta.dirname, '..', '..')
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly scripts: { readonly build: string }
}
type Output = { readonly stdout: string }

describe('the build', () => {
  // A copy, so that a dist folder in the tree is neither used nor touched.
  const copy = temporaryFolder()
  const main = join(copy, 'dist', 'main.js')

  beforeAll(async () => {
    for (const name of ['src', 'config', 'package.json', 'tsconfig.json'])
      cpSync(join(root, name), join(copy, name), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
    const { build } = scripts
    expect(build).toContain('tsc -p')
    // `npm run types` has checked them.
    const unchecked = build.replace('tsc -p', 'tsc --noCheck -p')
    const PATH = `${join(root, 'node_modules', '.bin')}:${process.env['PATH']}`
    const env = { ...process.env, PATH }
    await exec('sh', ['-c', unchecked], { cwd: copy, env }).catch(({ stdout }: Output) => {
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

  it.each(['a file, written by a thread of its own', 'Redis'])(
    'starts, counts in %s, forwards, and stops',
    async (where) => {
      const [redis, backend] = [sharedRedis(), await startRawBackend()]
      const path = join(temporaryFolder(), 'store.db')
      const store =
        where === 'Redis' ? `redis: "${redis.url}", prefix: ${redis.prefix}` : `file: "${path}"`
      const file = configFile(backend.url, { store: `store: { ${store} }` })
      const started = startTollgate(['start', '--config', file], { main })
      const origin = new URL(await started.listening('tollgate')).origin
      const admin = await started.listening('admin')
      await eventually('the store is in use', async () =>
        /"(?:available|embedded)"/.test(await (await fetch(`${admin}/readyz`)).text()),
      )
      const answer = await decided(() => call(`${origin}/v1/pets`, keys.pro))
      expect([answer.status, answer.body]).toEqual([200, 'ok'])
      expect(answer.headers.get('x-ratelimit-remaining')).toBe('299')
      started.signal('SIGTERM')
      expect((await started.finished).code).toBe(0)
      if (where === 'Redis')
        expect(quotaInRedis(redis, 'pro-client', redis.prefix)).toMatchObject({ dayUsed: 1 })
      else {
        const database = new DatabaseSync(path)
        const row = database
          .prepare("SELECT day_taken FROM quota WHERE client = 'pro-client'")
          .get()
        expect(row).toEqual({ day_taken: 1 })
        database.close()
      }
    },
  )
})
