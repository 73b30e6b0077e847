import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { createServer, connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { ensurePackage } from './debian-package.ts'
import { atEnd } from './ending.ts'
import { temporaryFolder } from './processes.ts'
import { flags } from './redis-shared.ts'

/** Finds redis-server on PATH, else installs it with apt-get where that is allowed, else throws with the remedy. */
export function ensureRedisServer(): void {
  ensurePackage('redis-server', {
    probe: ['redis-server', '--version'],
    elsewhere: 'brew install redis (macOS)',
  })
}

/** A redis-server process of our own on a free port; every method acts on that process alone. */
export type RedisServer = Awaited<ReturnType<typeof startRedisServer>>

/** Starts a redis-server on a free loopback port, without persistence; extra arguments are appended to its command line. */
export async function startRedisServer(...extra: string[]) {
  const [port, dir] = [await freePort(), temporaryFolder()]
  const launch = async (): Promise<ChildProcess> => {
    const options = flags({ port, bind: '127.0.0.1', save: '', appendonly: 'no', dir })
    const child = spawn('redis-server', [...options, ...extra], { stdio: 'ignore' })
    await waitForPort(port, child)
    return child
  }
  let child = await launch()
  const isRunning = (): boolean => child.exitCode === null && child.signalCode === null
  const end = (): Promise<void> => endOf(child)
  atEnd(end)
  return {
    ...reached(port),
    get pid() {
      return child.pid ?? 0
    },
    get isRunning() {
      return isRunning()
    },
    /** SIGSTOP: connections stay open, nothing is answered. */
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
    /** kill -9 and wait for the end. */
    kill: end,
    /** Starts it again on the same port, empty (persistence is off). */
    restart: async () => {
      await end()
      child = await launch()
    },
    stop: end,
  }
}

/** kill -9 and wait for the end, if it still runs. */
export async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}

/** Each file that runs at the same time has ports of its own, and takes one after the other: none is given twice before it is used. */
const PORTS = 1_000
const firstPort = 10_000 + PORTS * (Number(process.env['VITEST_POOL_ID'] ?? process.pid) % 12)
let taken = randomInt(PORTS)

/** A loopback port that was free a moment ago; below those that the system gives for port 0, and a cluster's bus 10,000 above it too. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = firstPort + (taken++ % PORTS)
    const server = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
    })
    if (isFree) return port
  }
}

/** Whether anybody listens on this port. */
export function isTaken(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => (socket.destroy(), resolve(true)))
    socket.once('error', () => resolve(false))
  })
}

/** Waits until the process listens; throws when it has ended, or after 20 s. */
export async function waitForPort(port: number, child: ChildProcess): Promise<void> {
  for (let attempt = 0; attempt < 800; attempt++) {
    if (child.exitCode !== null)
      throw new Error(`redis-server exited with ${child.exitCode} before it listened on ${port}`)
    if (await isTaken(port)) return
    await sleep(25)
  }
  throw new Error(`redis-server did not listen on ${port} within 20 s`)
}

const SHARED = 'TOLLGATE_TEST_REDIS'

/** One server for all files of a run. */
export async function startSharedRedis(): Promise<() => Promise<void>> {
  const { port, stop } = await startRedisServer()
  process.env[SHARED] = String(port)
  return stop
}

export type SharedRedis = ReturnType<typeof sharedRedis>

let prefixes = 0

/** The server of the run, for whoever does not stop, freeze, empty or configure it; keys are told apart by the prefix. */
export function sharedRedis() {
  const port = Number(process.env[SHARED])
  // For `store.prefix`: nobody else has it.
  return { ...reached(port), prefix: `test-${process.pid}-${prefixes++}` }
}

/** Where it is reached. */
export const reached = (port: number) => ({
  port,
  url: `redis://127.0.0.1:${port}`,
  /** Runs redis-cli with the arguments and returns what it prints; of a server that loads its data when it has it. */
  cli: (...args: string[]): string => {
    for (;;) {
      const all = ['-p', String(port), ...args]
      const printed = execFileSync('redis-cli', all, { encoding: 'utf8' }).trim()
      if (!printed.startsWith('LOADING ')) return printed
    }
  },
})
