/** What depends on the version of Node.js is run by the oldest one that package.json allows, too. */
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, it } from 'vitest'

const root = join(import.meta.dirname, '../..')
const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly engines: { readonly node: string }
}
const version = `${engines.node.replace('>=', '')}.0`
const name = `node-${process.platform}-${process.arch}`
const folder = join(root, 'node_modules/.cache', `node-${version}`)
const executable = join(folder, 'node_modules', name, 'bin/node')

/** SQLite, sockets and parsers from within, packed logs. */
const files = [
  'test/core/http/node-internals',
  'test/tools/log-files/reading',
  'test/process/store-file',
  'test/state/sqlite/file',
  'test/contract/usage',
  'test/wire/inflow',
  'test/wire/methods',
  'test/wire/pipelining',
].map((file) => `${file}.test.ts`)

beforeAll(() => {
  if (existsSync(executable)) return
  const install = ['install', '--no-save', '--prefix', folder, `${name}@${version}`]
  try {
    execFileSync('npm', install, { stdio: 'pipe' })
  } catch (cause) {
    throw new Error(`Node.js ${version} is needed by this test: npm ${install.join(' ')}`, {
      cause,
    })
  }
}, 300_000)

it(`Node.js ${version} passes the same tests`, async () => {
  const { PATH, HOME } = process.env
  const args = [
    join(root, 'node_modules/vitest/vitest.mjs'),
    ...['run', '--config', 'test/vitest.config.ts', '--maxWorkers=1'],
    // The first asks nothing more of Node.js than its neighbours, and takes as long as they; an Upgrade with a body is refused
    // by the oldest, not served as a plain request.
    '--testNamePattern=^(?!.*(?:killed again and again|with an Upgrade field))',
    ...files,
  ]
  const options = { cwd: root, env: { PATH, HOME, NO_COLOR: '1' }, maxBuffer: 2 ** 26 }
  const ended: unknown = await promisify(execFile)(executable, args, options).catch(
    (error: unknown) => error,
  )
  const { stdout } = ended as { stdout: string }
  // Where one fails, that stands in front of how many passed.
  expect(stdout).toMatch(new RegExp(`^ *Test Files +${files.length} passed`, 'm'))
  expect(Number(/^ *Tests +(\d+) passed/m.exec(stdout)?.[1])).toBeGreaterThan(80)
}, 300_000)
