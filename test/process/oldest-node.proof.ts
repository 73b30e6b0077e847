/** What depends on the version of Node.js is run by the oldest one that package.json allows, too. */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { temporaryFolder } from '../support/processes.ts'

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
  'test/contract/forwarder-http-proxy-3',
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
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  const { PATH = '', HOME = '' } = process.env
  const report = join(temporaryFolder(), 'report.json')
  const run = spawn(
    executable,
    [
      vitest,
      'run',
      '--config',
      'test/vitest.config.ts',
      '--maxWorkers=1',
      // The first asks nothing more of Node.js than its neighbours, and takes as long as they; an Upgrade with a body is refused
      // by the oldest, not served as a plain request.
      '--testNamePattern=^(?!.*(?:killed again and again|with an Upgrade field))',
      '--reporter=json',
      `--outputFile=${report}`,
      ...files,
    ],
    { cwd: root, env: { PATH, HOME }, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  let output = ''
  for (const stream of [run.stdout, run.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const code = await new Promise((resolve) => run.on('close', resolve))
  const { numPassedTests = 0, testResults = [] } = JSON.parse(
    existsSync(report) ? readFileSync(report, 'utf8') : '{}',
  ) as {
    readonly numPassedTests?: number
    readonly testResults?: readonly { readonly assertionResults: readonly Result[] }[]
  }
  const failed = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === 'failed')
  expect([code, failed], output).toEqual([0, []])
  expect(numPassedTests).toBeGreaterThan(80)
}, 300_000)

interface Result {
  readonly fullName: string
  readonly status: string
  readonly failureMessages: readonly string[]
}
