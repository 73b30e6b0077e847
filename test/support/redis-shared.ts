/** What the helpers for topologies of Redis have in common. */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * The reply of a Redis server or sentinel as it comes over the wire, '' when there is none within a second. Costs no
 * process, as redis-cli does, and lets others go on meanwhile: for asking again and again.
 */
export function askRedis(port: number, command: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`${command}\r\n`))
    let reply = ''
    socket.setTimeout(1000, () => socket.destroy())
    socket.setEncoding('utf8')
    socket.on('error', () => undefined)
    socket.on('data', (text: string) => {
      reply += text
      socket.end()
    })
    socket.on('close', () => resolve(reply))
  })
}

/** Bare questions that fit in five seconds on an idle machine: two are promised, and a sentinel that misses a hello is two later. */
const RECOVERY_QUESTIONS = 450
const AT_ONCE_MS = 25

/**
 * Waits until a server that is back is in use again; throws where it has answered too many bare questions at once meanwhile. One
 * that a busy machine makes late is not back yet.
 */
export async function recovery(
  port: number,
  isUsed: () => boolean | Promise<boolean>,
): Promise<void> {
  for (let answered = 0; !(await isUsed()); await sleep(10)) {
    const askedMs = performance.now()
    const reply = await askRedis(port, 'PING')
    if (reply === '' || performance.now() - askedMs > AT_ONCE_MS) continue
    if (++answered > RECOVERY_QUESTIONS) throw new Error(`${port} answers, and is not used`)
  }
}

/** Whether the server on this port answers that it is a master. */
export async function isMaster(port: number): Promise<boolean> {
  return (await askRedis(port, 'ROLE')).includes('\r\nmaster\r\n')
}

/** Starts again when it fails: of several ports that were free a moment ago, one may have been taken by a connection. */
export async function withFreePorts<Started>(start: () => Promise<Started>): Promise<Started> {
  for (let attempt = 0; attempt < 3; attempt++) {
    const started = await start().catch(() => undefined)
    if (started !== undefined) return started
  }
  return start()
}

/** Options of a command line: { port: 1 } is --port 1. */
export function flags(options: Readonly<Record<string, string | number>>): string[] {
  return Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
}
