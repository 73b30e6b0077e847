/** Load at a steady pace over keep-alive sockets, cheap enough for a thousand calls a second, and a backend that tells which of them it saw. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { promisify } from 'node:util'

/** Times are Unix times in ms of this machine, whose clock is also Redis' own. */
export interface Call {
  readonly client: string
  /** When it was written to a socket. */
  readonly sentMs: number
  /** undefined: the connection ended before an answer came. */
  status: number | undefined
  /** X-RateLimit-Reset of the answer, in seconds. */
  resetSeconds: number | undefined
  /** When the backend saw it; undefined: it never did. */
  seenMs: number | undefined
}

export type CountingBackend = Awaited<ReturnType<typeof startCountingBackend>>

/** A real HTTP server on a free loopback port; the number of a call is in its query. */
export async function startCountingBackend() {
  /** All calls ever made, by their number. */
  const calls: Call[] = []
  /** How many calls of a client have been seen so far. */
  const seen = new Map<string, number>()
  /** What should not have come: calls nobody made, calls that came twice, calls in another client's name. */
  const strays: string[] = []
  // A connection that is closed while idle would make gateways send a request twice.
  const server = createServer({ keepAliveTimeout: 600_000 }, (request, response) => {
    const number = Number(request.url?.slice(request.url.indexOf('=') + 1))
    const call = calls[number]
    const client = String(request.headers['x-client-id'])
    if (call?.client !== client || call.seenMs !== undefined)
      strays.push(`${request.url} of ${client}`)
    else call.seenMs = Date.now()
    seen.set(client, (seen.get(client) ?? 0) + 1)
    response.end('ok')
  })
  server.on('clientError', (_, socket) => socket.destroy())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    seen: (client: string): number => seen.get(client) ?? 0,
    strays,
    close: async (): Promise<void> => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export type Door = ReturnType<typeof openDoor>

const LINES_AT_MOST = 256

/** Connections to one gateway. */
export function openDoor(origin: string, calls: Call[]) {
  const port = Number(new URL(origin).port)
  const idle: Socket[] = []
  const lines = new Map<Socket, { call: Call | undefined; received: string }>()

  const open = (): Socket => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    const line = { call: undefined as Call | undefined, received: '' }
    lines.set(socket, line)
    socket.setEncoding('latin1')
    socket.on('error', () => undefined)
    socket.on('close', () => {
      lines.delete(socket)
      if (idle.includes(socket)) idle.splice(idle.indexOf(socket), 1)
    })
    socket.on('data', (text: string) => {
      line.received += text
      const answer = readAnswer(line.received)
      if (answer === undefined || line.call === undefined) return
      line.call.status = answer.status
      line.call.resetSeconds = answer.resetSeconds
      line.call = undefined
      line.received = ''
      if (answer.closes) socket.destroy()
      else idle.push(socket)
    })
    return socket
  }

  return {
    get inFlight() {
      return lines.size - idle.length
    },
    /** Makes no call if too many wait for an answer. */
    send: (client: string, key: string): void => {
      const spare = idle.pop()
      if (spare === undefined && lines.size >= LINES_AT_MOST) return
      const socket = spare ?? open()
      const line = lines.get(socket)
      if (line === undefined) throw new Error('a connection that has ended is not idle')
      const call = { client, sentMs: Date.now() } as Call
      line.call = call
      const number = calls.push(call) - 1
      socket.write(
        `GET /v1/pets?call=${number} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${key}\r\n\r\n`,
      )
    },
    close: (): void => {
      for (const socket of lines.keys()) socket.destroy()
    },
  }
}

/** undefined: not complete yet. Throws for an answer without Content-Length, which nobody gives here. */
function readAnswer(text: string) {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const head = text.slice(0, headEnd)
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length === undefined) throw new Error(`no Content-Length: ${head}`)
  if (text.length < headEnd + 4 + Number(length)) return undefined
  const reset = /\r\nx-ratelimit-reset: *(\d+)/i.exec(head)?.[1]
  return {
    status: Number(text.slice(9, 12)),
    resetSeconds: reset === undefined ? undefined : Number(reset),
    closes: /\r\nconnection: *close/i.test(head),
  }
}

/** Sends so many times a second until stopped, whatever the answers do. The result stops it. */
export function atPace(perSecond: number, send: () => void): () => void {
  const startedMs = performance.now()
  let sent = 0
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - startedMs) / 1000) * perSecond)
    for (; sent < due; sent++) send()
  }, 5)
  return () => clearInterval(timer)
}

const takeLine =
  /^\+([\d.]+) \[[^\]]*\] "(?:eval|evalsha)" .*"1" "tollgate:q:\{([^}]+)\}" "([^"]+)" "(\d+)"/i

/** Every call to the quota script of this Redis from now on, as Redis itself tells them (MONITOR). */
export async function watchStoreCalls(port: number) {
  const calls: { atMs: number; client: string; process: string }[] = []
  const socket = connect({ port, host: '127.0.0.1' })
  await once(socket, 'connect')
  // A script that Redis does not know yet is sent once more with its text: the same call.
  const known = new Set<string>()
  let rest = ''
  socket.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\r\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [, at, client, process, sequence] = takeLine.exec(line) ?? []
      if (client === undefined || process === undefined) continue
      if (known.has(`${process} ${sequence}`)) continue
      known.add(`${process} ${sequence}`)
      calls.push({ atMs: Number(at) * 1000, client, process })
    }
  })
  socket.on('error', () => undefined)
  socket.write('MONITOR\r\n')
  return { calls, close: (): void => void socket.destroy() }
}

const command = promisify(execFile)

export type CountersInRedis = Awaited<ReturnType<typeof countersInRedis>>

/** Reads a client's hash without holding up this process: its windows, and what each process holds and has used. */
export async function countersInRedis(port: number, key: string) {
  const { stdout } = await command('redis-cli', ['-p', String(port), 'HGETALL', key])
  const lines = stdout.trim().split('\n')
  const hash = new Map(lines.flatMap((name, at) => (at % 2 === 0 ? [[name, lines[at + 1]]] : [])))
  const number = (name: string): number => Number(hash.get(name) ?? 0)
  const holders = [...hash].flatMap(([name, value = '']) => {
    if (!name?.startsWith('process:')) return []
    const [minuteHeld, minuteUsed, dayHeld, dayUsed] = value.split(':').slice(3).map(Number)
    return [{ process: name.slice('process:'.length), minuteHeld, minuteUsed, dayHeld, dayUsed }]
  })
  const [minuteTaken, minuteUsed] = [number('minuteTaken'), number('minuteUsed')]
  return {
    minuteTaken,
    minuteUsed,
    dayTaken: number('dayTaken'),
    dayUsed: number('dayUsed'),
    holders,
  }
}
