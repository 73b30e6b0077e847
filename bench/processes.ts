/** Starts the processes of the bench on loopback and ends exactly those, whatever happens. */
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startRedisServer, type RedisServer } from '../test/support/redis-server.ts'

const startTimeoutMs = 120_000
const stopTimeoutMs = 8_000

export interface LaunchOrder {
  /** Names its log. */
  readonly name: string
  /** The script and its arguments; the arguments alone where `executable` is given. */
  readonly command: readonly [string, ...string[]]
  /** Default: this Node.js. */
  readonly executable?: string
  /** The first word of the line `NAME listening on URL`. Default: server. */
  readonly listener?: string
  /** Where it will listen on loopback; only for a program that prints no such line. */
  readonly port?: number
  /** One of the bench's own servers, which ends itself when the bench is gone. */
  readonly own: boolean
  /** A Node.js process that tells what it has allocated; see probe.ts. */
  readonly probe?: boolean
  /** Default: that of the bench. */
  readonly env?: NodeJS.ProcessEnv
  /** The number of files and sockets it may have open. */
  readonly openFiles?: number | undefined
}

export interface Launched {
  readonly pid: number
  /** Scheme, host and port. */
  readonly origin: string
  readonly logFile: string
  /** Scheme, host and port of a further listener that announces itself in the same form, such as `admin`. */
  listening(listener: string): Promise<string>
  /** Sends an IPC message and waits for the answer; own processes only. */
  ask<Reply>(message: string): Promise<Reply>
  /** Empties what it has printed so far, so that access logs do not fill the disk. */
  truncateLog(): void
  end(): Promise<void>
}

export interface Processes {
  /** A folder of this run, removed at the end. */
  readonly directory: string
  launch(order: LaunchOrder): Promise<Launched>
  redis(): Promise<RedisServer>
  /** Starts a script of the bench that obeys orders, and resolves once it is ready for them. */
  worker<Order extends object, Outcome>(script: string): Promise<Worker<Order, Outcome>>
}

export interface Worker<Order, Outcome> {
  ask(order: Order): Promise<Outcome>
  end(): Promise<void>
}

const live = new Set<() => Promise<void>>()
let isEnding = false

/** Ends what every run has started, and lets nothing new begin: it would outlive the bench. */
export async function endAllProcesses(): Promise<void> {
  isEnding = true
  await Promise.all([...live].map((end) => end()))
}

/** The bench was told to stop: what it has measured is not what was asked for. */
export const isStopping = (): boolean => isEnding

export const script = (name: string): string => join(import.meta.dirname, name)

/** Runs `work` with processes of its own, all of which are ended after it, the last first. */
export async function withProcesses<Result>(
  work: (processes: Processes) => Promise<Result>,
): Promise<Result> {
  const directory = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  const cleanUps: (() => void | Promise<void>)[] = [
    () => rmSync(directory, { recursive: true, force: true }),
  ]
  const end = async (): Promise<void> => {
    for (let next = cleanUps.pop(); next; next = cleanUps.pop()) await next()
    live.delete(end)
  }
  live.add(end)
  try {
    return await work(createProcesses(directory, cleanUps))
  } finally {
    await end()
  }
}

function createProcesses(directory: string, cleanUps: (() => void | Promise<void>)[]): Processes {
  const refuseWhenEnding = (): void => {
    if (isEnding) throw new Error('the bench is stopping')
  }
  return {
    directory,
    launch: async (order) => {
      refuseWhenEnding()
      const { name, listener = 'server', port, own } = order
      // Output goes to a file, not a pipe: an access log must not cost the bench CPU of its own.
      const logFile = join(directory, `${name}.log`)
      const log = openSync(logFile, 'a')
      const [executable, ...args] = commandOf(order)
      const child = spawn(executable, args, {
        env: order.env,
        stdio: own ? ['ignore', log, log, 'ipc'] : ['ignore', log, log],
      })
      closeSync(log)
      cleanUps.push(() => stop(child))
      return {
        pid: child.pid ?? 0,
        origin: await listeningOrigin(child, logFile, listener, port),
        logFile,
        listening: (listener) => listeningOrigin(child, logFile, listener),
        ask: async <Reply>(message: string) => (await exchange(child, message)) as Reply,
        truncateLog: () => truncateSync(logFile),
        end: () => stop(child),
      }
    },
    redis: async () => {
      refuseWhenEnding()
      const server = await startRedisServer()
      cleanUps.push(() => server.stop())
      return server
    },
    worker: async (name: string) => {
      refuseWhenEnding()
      const child = fork(script(name), { execArgv: [] })
      cleanUps.push(() => stop(child))
      await exchange(child)
      return {
        ask: (order: object) => exchange(child, order) as Promise<never>,
        end: () => stop(child),
      }
    },
  }
}

/** The program and its arguments. A shell that sets a limit becomes the program, so that the process id is right. */
function commandOf({ command, executable, probe, openFiles }: LaunchOrder): [string, ...string[]] {
  const flags = probe ? ['--expose-gc', '--import', script('probe.ts')] : []
  const whole: [string, ...string[]] =
    executable === undefined ? [process.execPath, ...flags, ...command] : [executable, ...command]
  if (openFiles === undefined) return whole
  return ['sh', '-c', `ulimit -n ${openFiles}; exec "$0" "$@"`, ...whole]
}

async function listeningOrigin(
  child: ChildProcess,
  logFile: string,
  listener: string,
  port?: number,
): Promise<string> {
  const line = new RegExp(`^${listener} listening on (https?://[^\\s]+)`, 'm')
  const deadline = Date.now() + startTimeoutMs
  while (Date.now() < deadline && child.exitCode === null) {
    const url = line.exec(readFileSync(logFile, 'utf8'))?.[1]
    if (url !== undefined) return new URL(url).origin
    if (port !== undefined && (await accepts(port))) return `http://127.0.0.1:${port}`
    await sleep(5)
  }
  const printed = readFileSync(logFile, 'utf8').trim()
  const reason = /^.*Error.*$/m.exec(printed)?.[0] ?? printed.slice(-300)
  throw new Error(`${listener} did not start; it printed: ${reason || 'nothing'}`)
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => (socket.destroy(), resolve(true)))
    socket.once('error', () => resolve(false))
  })

/** Sends a message, if there is one, and resolves with the next that comes. */
function exchange(child: ChildProcess, message?: string | object): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const onExit = (code: number | null, by: string | null): void =>
    reject(new Error(`${child.spawnargs.at(-1)} ended without an answer, by ${code ?? by}`))
  child.once('message', resolve).once('exit', onExit)
  // A process that has ended meanwhile is noticed by its exit.
  if (message !== undefined) child.send(message, () => undefined)
  return promise.finally(() => child.off('message', resolve).off('exit', onExit))
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const deadline = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs)
  await ended
  clearTimeout(deadline)
}
