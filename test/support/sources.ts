/** What processes of tests are started from: the sources, put together into a few files for a run of tests, which halves what the start of a process costs. */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'

const root = join(import.meta.dirname, '../..')
const main = join(root, 'src', 'main.ts')
const PROGRAM = 'TOLLGATE_TEST_PROGRAM'
/** Outside of a run of tests the sources themselves. */
export const sources = process.env[PROGRAM] ?? main
/** Node.js compares the sources, so that nothing old is run. */
export const compileCache =
  sources === main
    ? join(root, 'node_modules', '.cache', 'node-compile')
    : join(dirname(sources), 'compiled')

/** For all tests of this run; `again` takes the sources as they have become, `remove` ends it. */
export async function bundleSources(): Promise<{ again(): Promise<void>; remove(): void }> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bundle-'))
  const again = (): Promise<void> => bundle(folder)
  await again()
  process.env[PROGRAM] = join(folder, 'main.js')
  await warmCompileCache(folder)
  return { again, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

/** Files beside a source, such as scripts and threads, are still found there; workers are started from the bundle. */
function inPlace(code: string, id: string): string {
  const where = { dirname: dirname(id), url: pathToFileURL(id).href, filename: id }
  return Object.entries(where).reduce(
    (text, [name, value]) =>
      id === main && name === 'filename'
        ? text
        : text.replaceAll(`import.meta.${name}`, JSON.stringify(value)),
    code,
  )
}

async function bundle(folder: string): Promise<void> {
  const { rolldown } = await import('rolldown')
  const filter = { id: /\/src\/.*\.ts$/ }
  const bundled = await rolldown({
    input: main,
    platform: 'node',
    plugins: [{ name: 'in place', transform: { filter, handler: inPlace } }],
  })
  await bundled.write({ dir: folder, format: 'esm', keepNames: true })
  await bundled.close()
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
}

/**
 * Fills the cache once, so that the first processes of a run need not do so side by side. A process writes what it has
 * compiled when it ends by itself, and most that tests start are killed. What is there is not written again: so the
 * processes that use most of it come first.
 */
async function warmCompileCache(folder: string): Promise<void> {
  const config = join(folder, 'gateway.yaml')
  writeFileSync(
    config,
    `server: { listen: "127.0.0.1:0", workers: 2 }
admin: { listen: "127.0.0.1:0" }
upstream: { urls: ["http://127.0.0.1:1"] }
store: { file: ${join(folder, 'tollgate.db')} }
`,
  )
  const withRedis = join(folder, 'redis.yaml')
  writeFileSync(
    withRedis,
    'upstream: { urls: ["http://127.0.0.1:1"] }\nstore: { redis: "redis://127.0.0.1:1" }\n',
  )
  await runToEnd(folder, ['start', '--config', config])
  await Promise.all([
    runToEnd(folder, ['check', '--connect', '--config', withRedis]),
    runToEnd(folder, ['bans', 'list', '--admin', 'http://127.0.0.1:1']),
  ])
}

/** What goes on by itself is told to end once it listens. */
function runToEnd(folder: string, args: readonly string[]): Promise<unknown> {
  const env = {
    PATH: process.env['PATH'] ?? '',
    NODE_COMPILE_CACHE: join(folder, 'compiled'),
  }
  const child = spawn(process.execPath, [join(folder, 'main.js'), ...args], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (text.includes('admin listening on')) child.kill('SIGTERM')
  })
  return new Promise((resolve) => child.once('close', resolve))
}
