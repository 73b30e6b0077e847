/** Starts the processes of the bench on loopback and ends exactly those, whatever happens. */
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, openSync, closeSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startRedisServer, type RedisServer } from '../test/support/redis-server.ts'
import type { LoadOrder, LoadOutcome } from './load.ts'

const startTimeoutMs = 20_000
const stopTimeoutMs = 8_000

export interface LaunchOrder {
  /** Names its log and its profile. */
  readonly name: string
  /** The script and its arguments; the arguments alone where `executable` is given. */
  readonly command: readonly [string, ...string[]]
  /** Default: this Node.js, with a profile where one is asked for. */
  readonly executable?: string
  /** The first word of the line `NAME listening on URL`. */
  readonly listener: string
  /** Where it will listen on loopback; only for a program that prints no such line. */
  readonly port?: number
  /** One of the bench's own servers, which ends itself when the bench is gone. */
  readonly own: boolean
}

export interface Launched {
  readonly pid: number
  /** Scheme, host and port. */
  readonly origin: string
  /** Scheme, host and port of a further listener that announces itself in the same form, such as `admin`. */
  listening(listener: string): Promise<string>
  /** Sends an IPC message and waits for the answer; own processes only. */
  ask<Reply>(message: string): Promise<Reply>
  /** Empties what it has printed so far, so that access logs do not fill the disk. */
  truncateLog(): void
}

export interface Processes {
  /** A folder of this run, removed at the end. */
  readonly directory: string
  launch(order: LaunchOrder): Promise<Launched>
  redis(): Promise<RedisServer>
  load(order: LoadOrder): Promise<LoadOutcome>
  /** Ends everything started here, last first. May be called twice. */
  stopAll(): Promise<void>
  /** stopAll was called. */
  stopping(): boolean
}

/** profileDirectory: where each launched process writes a V8 CPU profile when it ends. */
export function createProcesses(profileDirectory: string | undefined): Processes {
  const directory = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  const cleanUps: (() => void | Promise<void>)[] = [
    () => rmSync(directory, { recursive: true, force: true }),
  ]
  const profileFlags = (name: string): string[] =>
    profileDirectory === undefined
      ? []
      : ['--cpu-prof', `--cpu-prof-dir=${profileDirectory}`, `--cpu-prof-name=${name}.cpuprofile`]
  let ending = false
  /** After the end has begun nothing new may start: it would outlive the bench. */
  const refuseWhenStopping = (): void => {
    if (ending) throw new Error('the bench is stopping')
  }
  return {
    directory,
    launch: async ({ name, command, executable, listener, port, own }) => {
      refuseWhenStopping()
      // Output goes to a file, not a pipe: an access log must not cost the bench CPU of its own.
      const logFile = join(directory, `${name}.log`)
      const log = openSync(logFile, 'a')
      const child = spawn(
        executable ?? process.execPath,
        executable === undefined ? [...profileFlags(name), ...command] : command,
        { stdio: own ? ['ignore', log, log, 'ipc'] : ['ignore', log, log] },
      )
      closeSync(log)
      cleanUps.push(() => stop(child))
      const listening = (listener: string): Promise<string> =>
        listeningOrigin({ child, listener, logFile, port: undefined })
      return {
        pid: child.pid ?? 0,
        origin: await listeningOrigin({ child, listener, logFile, port }),
        listening,
        ask: async <Reply>(message: string) => {
          const reply = nextMessage(child)
          child.send(message)
          return (await reply) as Reply
        },
        truncateLog: () => truncateSync(logFile),
      }
    },
    redis: async () => {
      refuseWhenStopping()
      const server = await startRedisServer()
      cleanUps.push(() => server.stop())
      return server
    },
    load: async (order) => {
      refuseWhenStopping()
      const child = fork(join(import.meta.dirname, 'load.ts'), { execArgv: [] })
      cleanUps.push(() => stop(child))
      child.send(order)
      const outcome = await nextMessage(child)
      return outcome as LoadOutcome
    },
    stopAll: async () => {
      ending = true
      for (let next = cleanUps.pop(); next; next = cleanUps.pop()) await next()
    },
    stopping: () => ending,
  }
}

async function listeningOrigin(from: {
  readonly child: ChildProcess
  readonly listener: string
  readonly logFile: string
  readonly port: number | undefined
}): Promise<string> {
  const line = new RegExp(`^${from.listener} listening on (https?://[^\\s]+)`, 'm')
  const deadline = Date.now() + startTimeoutMs
  while (Date.now() < deadline && from.child.exitCode === null) {
    const url = line.exec(readFileSync(from.logFile, 'utf8'))?.[1]
    if (url !== undefined) return new URL(url).origin
    if (from.port !== undefined && (await accepts(from.port)))
      return `http://127.0.0.1:${from.port}`
    await sleep(20)
  }
  const printed = readFileSync(from.logFile, 'utf8').trim()
  const reason = /^.*Error.*$/m.exec(printed)?.[0] ?? printed.slice(-300)
  throw new Error(`${from.listener} did not start; it printed: ${reason || 'nothing'}`)
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

async function nextMessage(child: ChildProcess): Promise<unknown> {
  const settled = new AbortController()
  const { signal } = settled
  const ended = async (): Promise<never> => {
    await once(child, 'exit', { signal })
    throw new Error('it ended without an answer')
  }
  try {
    const [message] = (await Promise.race([
      once(child, 'message', { signal }),
      ended(),
    ])) as unknown[]
    return message
  } finally {
    settled.abort()
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const deadline = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs)
  await ended
  clearTimeout(deadline)
}
