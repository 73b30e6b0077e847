#!/usr/bin/env node
/**
 * The process's edge: arguments, environment, signals and exit codes. Nothing else reads `process`.
 * Signals are handled before anything is loaded that takes time; until then the system's defaults apply.
 */
import { readFileSync } from 'node:fs'
import module from 'node:module'
import { join } from 'node:path'
import type { Edge, Incidents } from './cli/edge.ts'
import type { ToWorker } from './server/workers/messages.ts'

const FAILED = 1
const LINGER_MS = 2_000
const PARENT_CHECK_MS = 500
/** The oldest Node.js with node:sqlite and the http options used here; package.json says the same. */
const OLDEST_NODE = '22.19'

let incidents: Incidents | undefined
const unheard: ((incidents: Incidents) => void)[] = []
function dispatch(incident: (incidents: Incidents) => void): void {
  if (incidents === undefined) unheard.push(incident)
  else incident(incidents)
}

// Without a listener, SIGUSR1 opens the debugger of Node.js.
for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)
  process.on(name, () => dispatch(({ signal }) => signal(name)))

// A rejection that nobody handles arrives here too.
process.on('uncaughtException', (error) => {
  if (incidents !== undefined) return incidents.crash(error)
  complain(`tollgate: ${error.stack ?? error.message}`)
  process.exit(FAILED)
})

// Node.js would print them. What it has no final form for yet, such as SQLite in version 22, is tested here.
process.removeAllListeners('warning')
process.on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') dispatch((receiver) => receiver.warning(warning))
})

// The reader of the output may leave at any time; that is no reason to stop answering clients.
const unread = new AbortController()
process.stdout.on('error', () => unread.abort())
process.stderr.on('error', () => undefined)

// npm passes on some signals, and dies of others in silence.
if (process.env['npm_lifecycle_event'] !== undefined) {
  const before = ancestors()
  const timer = setInterval(() => {
    if (ancestors() === before) return
    clearInterval(timer)
    dispatch(({ signal }) => signal('orphaned'))
  }, PARENT_CHECK_MS).unref()
}

/** The parent; and where that is a shell, which outlives npm, its parent too. What is above npm does not count: it may go. */
function ancestors(): string {
  const parent = process.ppid
  try {
    const [, name, grandparent] =
      /^\d+ \((.*)\) \S+ (\d+)/s.exec(readFileSync(`/proc/${parent}/stat`, 'latin1')) ?? []
    return name?.endsWith('sh') ? `${parent} ${grandparent}` : String(parent)
  } catch {
    return String(parent)
  }
}

function complain(line: string): void {
  process.stderr.write(`${line}\n`)
}

function supervisorChannel(): Edge['supervisor'] {
  if (process.send === undefined) return undefined
  const send = process.send.bind(process)
  return {
    send: (message) =>
      new Promise((resolve) => {
        if (process.connected) send(message, undefined, {}, () => resolve())
        else resolve()
      }),
    onMessage: (listener) => void process.on('message', (message) => listener(message as ToWorker)),
    onGone: (listener) => {
      process.on('disconnect', listener)
      if (!process.connected) listener()
    },
  }
}

const CLEAR_LINE_END = '\u001b[K'

/** A run from sources keeps what Node.js has compiled: who may write there may change the sources, too. Threads and workers go by the variable. */
function keepCompiled(): void {
  const folder = join(import.meta.dirname, '../node_modules/.cache/tollgate')
  if (import.meta.filename.endsWith('.ts') && module.enableCompileCache(folder).directory)
    process.env['NODE_COMPILE_CACHE'] ??= folder
}

/** Orders versions; a comparison of texts with digits would load the data of languages. */
const rankOf = (version: string): number => {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return 1_000 * major + minor
}

async function main(): Promise<number> {
  if (rankOf(process.versions.node) < rankOf(OLDEST_NODE)) {
    complain(`tollgate: Node.js ${OLDEST_NODE} or newer is needed; this is ${process.version}`)
    return FAILED
  }
  const packageFile = new URL('../package.json', import.meta.url)
  const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string }
  keepCompiled()
  const { run } = await import('./cli/commands.ts')
  const screen = process.stdout.isTTY
    ? (await import('./cli/terminal/screen.ts')).createScreen(() => process.stdin, process.stdout)
    : undefined
  if (screen !== undefined) process.on('exit', () => screen.restore())
  return run({
    args: process.argv.slice(2),
    env: process.env,
    version,
    entry: import.meta.filename,
    supervisor: supervisorChannel(),
    screen,
    unread: unread.signal,
    print: (line) => void process.stdout.write(`${line}\n`),
    complain,
    progress: process.stderr.isTTY
      ? (line) => void process.stderr.write(`\r${line}${CLEAR_LINE_END}`)
      : undefined,
    attend(to) {
      incidents = to
      for (const incident of unheard.splice(0)) incident(to)
    },
    exit: (code) => process.exit(code),
  })
}

process.exitCode = await main()
// A start that failed half-way has opened what nothing will close; that must not keep the process alive.
setTimeout(() => process.exit(), LINGER_MS).unref()
