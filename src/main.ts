#!/usr/bin/env node
/** The process's edge: arguments, environment, signals and exit codes. Nothing else reads `process`. */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { checkCommand } from './cli/check.ts'
import { keysNewCommand } from './cli/keys.ts'
import type { Running } from './cli/running.ts'
import { usage, UsageError } from './cli/usage.ts'
import { ConfigError } from './config/problems.ts'

const OK = 0
const FAILED = 1
const REFUSED = 2
const LINGER_MS = 2_000
/** npm passes on the SIGINT that the terminal has sent to this process already. */
const SAME_KEYPRESS_MS = 500
const signals = ['SIGTERM', 'SIGINT'] as const

const print = (line: string): void => void process.stdout.write(`${line}\n`)
const complain = (line: string): void => void process.stderr.write(`${line}\n`)

/** What a crash is told to; undefined until something runs. */
let current: Running | undefined

/** Runs until a signal, which may come during the start already; resolves to the exit code. */
async function untilSignal(starting: Promise<Running>): Promise<number> {
  let firstAtMs: number | undefined
  const signalled = new Promise<NodeJS.Signals>((resolve) => {
    for (const name of signals) {
      process.on(name, () => {
        firstAtMs ??= performance.now()
        resolve(name)
        // A second signal says that waiting is not wanted.
        if (performance.now() - firstAtMs <= SAME_KEYPRESS_MS) return
        current?.abandon?.()
        process.exit(FAILED)
      })
    }
  })
  // What many gateways reload by must not end this one.
  process.on('SIGHUP', () =>
    complain('tollgate: SIGHUP: a changed config is taken at the next start'),
  )
  process.on('SIGUSR2', () => {
    if (current?.roll !== undefined) void current.roll()
    else complain('tollgate: SIGUSR2 rolls workers, and here are none (server.workers: 1)')
  })
  try {
    current = await starting
  } catch (error) {
    // A key press goes to all processes at once, to workers too that cannot hear it yet: a start it ends has not failed.
    if (firstAtMs === undefined) throw error
    return lingering(OK)
  }
  await current.stop(await signalled)
  return lingering(OK)
}

/** A handle that somebody forgot to close must not keep a process that has nothing left to do. */
function lingering(code: number): number {
  setTimeout(() => process.exit(code), LINGER_MS).unref()
  return code
}

/** A worker of the supervisor that has started this process. */
async function runWorker(): Promise<never> {
  if (process.send === undefined)
    throw new UsageError('worker is no command of its own: `start` starts workers (server.workers)')
  // The supervisor decides what they mean: a key press, or a service manager, sends them to all processes at once.
  for (const name of [...signals, 'SIGHUP', 'SIGUSR2']) process.on(name, () => undefined)
  const send = process.send.bind(process)
  const { createWorker } = await import('./workers/worker.ts')
  const worker = createWorker({
    send: (message) =>
      new Promise((resolve) => {
        if (process.connected) send(message, undefined, {}, () => resolve())
        else resolve()
      }),
    onMessage: (listener) => void process.on('message', listener),
    onGone: (listener) => {
      process.on('disconnect', listener)
      if (!process.connected) listener()
    },
  })
  current = { stop: () => Promise.resolve(), crash: (error) => worker.crash(error) }
  // All that it had to say has gone out: whatever handle is left must not hold up a roll or a stop.
  process.exit(await worker.finished)
}

/** The engine this needs, with node:sqlite and the http options used here; package.json says the same. */
const OLDEST_NODE = [22, 19] as const

function refuseOldNode(): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])) return
  throw new Error(`Node.js ${OLDEST_NODE.join('.')} or newer is needed; this is ${process.version}`)
}

async function run(argv: readonly string[]): Promise<number> {
  refuseOldNode()
  const [command, ...rest] = argv
  const env = process.env
  if (rest.includes('--help')) return help()
  const options = (names: readonly string[]): Record<string, string> => readOptions(rest, names)
  const entry = fileURLToPath(import.meta.url)
  const edge = () => ({ env, print, entry, version: version() })
  switch (command) {
    // What runs is loaded when asked for: a check or a key need not wait for it.
    case 'start': {
      const { startCommand } = await import('./cli/start.ts')
      return untilSignal(startCommand({ ...options(['config']), ...edge() }))
    }
    case 'demo': {
      // The catalogue's SQLite makes Node.js 22 print a warning that `start` need not show.
      const { demoCommand } = await import('./cli/demo.ts')
      return untilSignal(demoCommand({ ...options(['config', 'db']), ...edge() }))
    }
    case 'catalogue': {
      const { catalogueCommand } = await import('./cli/catalogue.ts')
      return untilSignal(catalogueCommand({ ...options(['listen', 'db']), print, complain }))
    }
    case 'worker':
      return runWorker()
    case 'check':
      return checkCommand({ file: required(options(['config']), 'config'), env, print })
    case 'keys':
      return keysCommand(rest)
    case '--version':
      print(version())
      return OK
    case '--help':
    case '-h':
    case 'help':
      return help()
    default:
      throw new UsageError(
        command === undefined ? 'a command is missing' : `unknown command "${command}"`,
      )
  }
}

function help(): number {
  print(usage)
  return OK
}

function keysCommand([verb, ...rest]: readonly string[]): number {
  if (verb !== 'new')
    throw new UsageError(`keys takes one verb, "new"${verb ? `, not "${verb}"` : ''}`)
  const options = readOptions(rest, ['client', 'plan', 'expires'])
  return keysNewCommand({
    client: required(options, 'client'),
    plan: required(options, 'plan'),
    expires: options['expires'],
    nowMs: Date.now(),
    randomBytes,
    print,
    complain: (fault) => complain(`tollgate: ${fault}`),
  })
}

function required(options: Record<string, string>, name: string): string {
  const value = options[name]
  if (value === undefined) throw new UsageError(`--${name} is missing`)
  return value
}

/** Every option takes a value and may be given once; anything else is a UsageError that names what is taken. */
function readOptions(args: readonly string[], names: readonly string[]): Record<string, string> {
  const taken = `this command takes ${names.map((name) => `--${name} VALUE`).join(', ')}`
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(names.map((name) => [name, { type: 'string' as const }])),
    strict: false,
    tokens: true,
  })
  const values: Record<string, string> = {}
  for (const token of tokens) {
    if (token.kind === 'option-terminator') continue
    if (token.kind === 'positional')
      throw new UsageError(`"${token.value}" is not an option; ${taken}`)
    if (!names.includes(token.name))
      throw new UsageError(`unknown option ${token.rawName}; ${taken}`)
    if (!token.value) throw new UsageError(`${token.rawName} has no value; ${taken}`)
    if (token.name in values) throw new UsageError(`${token.rawName} is given twice; keep one`)
    values[token.name] = token.value
  }
  return values
}

function version(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

// Whoever read the output may leave at any time; that is no reason to stop answering clients.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)

// A rejection that nobody handles arrives here too.
process.on('uncaughtException', (error) => {
  if (current === undefined) complain(`tollgate: ${error.stack ?? error.message}`)
  else current.crash(error)
  process.exit(FAILED)
})

try {
  process.exitCode = await run(process.argv.slice(2))
} catch (error) {
  if (error instanceof UsageError) {
    complain(`tollgate: ${error.message}\n\n${usage}`)
    process.exitCode = REFUSED
  } else if (error instanceof ConfigError) {
    for (const line of error.format()) complain(line)
    process.exitCode = REFUSED
  } else {
    complain(`tollgate: ${(error as Error).message}`)
    // A start that failed half-way has opened what nobody will close, such as a connection to the store.
    process.exitCode = lingering(FAILED)
  }
}
