import { execFile } from 'node:child_process'
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { Script } from 'node:vm'
import { beforeAll, describe, expect, it } from 'vitest'
import { libraries, pageFiles } from '../../src/admin/page-assets.ts'
import { keys } from '../support/gateway.ts'
import { temporaryFolder } from '../support/processes.ts'
import { sharedRedis } from '../support/redis-server.ts'
import { configFile, decided, quotaInRedis, startRawBackend, gatewayProcess } from './gateways.ts'

const exec = promisify(execFile)
const root = join(import.meta.dirname, '../..')
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
    const unchecked = build.replaceAll('tsc -p', 'tsc --noCheck -p')
    const PATH = `${join(root, 'node_modules', '.bin')}:${process.env['PATH']}`
    const env = { ...process.env, PATH }
    await exec('sh', ['-c', unchecked], { cwd: copy, env }).catch(({ stdout }: Output) => {
      // The compiler complains on stdout, which the error's own message leaves out.
      throw new Error(stdout)
    })
  })

  it('holds the files of the pages: scripts without types, all others just as they are written', () => {
    const served = [...pageFiles.keys()].map((path) => path.slice(1))
    const files = served.filter((file) => file !== '' && !(basename(file) in libraries))
    expect(files.length).toBeGreaterThan(20)
    for (const file of [...files, 'admin/page/index.html', 'tools/replay/html/page/report.js']) {
      const built = readFileSync(join(copy, 'dist', file), 'utf8')
      if (file.endsWith('.js')) expect(built, file).not.toMatch(/^import (?:type|.*\.ts')/m)
      else expect(built, file).toBe(readFileSync(join(root, 'src', file), 'utf8'))
    }
  })

  it('writes the report of a replay with scripts that browsers take', async () => {
    const [log, html] = ['replay.log', 'report.html'].map((name) => join(copy, name))
    const line = { at: '2026-11-03T14:07:31Z', who: 'demo-free', code: 200 }
    writeFileSync(String(log), `${JSON.stringify(line)}\n`)
    const fields = '--client-field who --time-field at --status-field code'.split(' ')
    const config = join(copy, 'config', 'gateway.yaml')
    const args = ['replay', log, '--config', config, ...fields, '--html', html].map(String)
    await exec(process.execPath, [main, ...args])
    const scripts = readFileSync(String(html), 'utf8').matchAll(/<script>([^]*?)<\/script>/g)
    const texts = Array.from(scripts, ([, text = '']) => text)
    expect(texts).toHaveLength(2)
    for (const text of texts) expect(() => new Script(text)).not.toThrow()
  })

  it.each(['a file, written by a thread of its own', 'Redis'])(
    'starts, counts in %s, forwards, and stops',
    async (where) => {
      const [redis, backend] = [sharedRedis(), await startRawBackend()]
      const path = join(temporaryFolder(), 'store.db')
      const store =
        where === 'Redis' ? `redis: "${redis.url}", prefix: ${redis.prefix}` : `file: "${path}"`
      const file = configFile(backend.url, { store: `store: { ${store} }` })
      const gateway = await gatewayProcess(file, { main })
      const answer = await decided(() => gateway.call(keys.pro))
      expect([answer.status, answer.body]).toEqual([200, 'ok'])
      expect(answer.headers.get('x-ratelimit-remaining')).toBe('299')
      for (const path of pageFiles.keys())
        expect((await fetch(gateway.adminOrigin + path)).status, path).toBe(200)
      gateway.signal('SIGTERM')
      expect((await gateway.finished).code).toBe(0)
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
