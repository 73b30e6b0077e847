/** The traffic of the soak, in a process of its own: everything at once that clients do, until it is stopped. */
import { connect, type Socket } from 'node:net'
import { keyOf } from './clients.ts'
import { openConnection, requestHead, type Connection } from './wire.ts'

export interface SoakOrder {
  readonly ports: readonly number[]
  /** Connections that send as fast as they are answered. */
  readonly busy: number
  readonly slowReaders: number
  readonly slowWriters: number
  readonly group: string
  readonly clients: number
  readonly exhaustedGroup: string
  readonly exhaustedClients: number
}

/** start begins the traffic; report and stop tell what has been answered so far. */
export type SoakCommand = { readonly start: SoakOrder } | 'report' | 'stop'

export interface SoakReport {
  /** Answers by what they were. */
  readonly answers: Readonly<Record<string, number>>
  /** What none of the traffic explains; empty for a valid run. */
  readonly faults: readonly string[]
}

/** Every status that the traffic, and a backend that fails on purpose, explain. */
const expected: Readonly<Record<number, string>> = {
  200: 'served',
  401: 'with an unknown key',
  408: 'too slow to send a request',
  429: 'over quota or banned',
  500: 'failed by the backend',
  502: 'cut off by the backend',
}

/** The clients that send now: so many in a row, further along every few seconds, all of them once in a minute. */
const activeShare = 1 / 20
const moveEveryMs = 60_000 * activeShare
const uploadBytes = 10 * 1024
const downloadBytes = 100 * 1024
const slowBytes = 2 * 1024 * 1024

const answers = new Map<string, number>()
const faults = new Map<string, number>()
let stopped = false

process.on('message', (command: SoakCommand) => {
  if (command === 'stop') stopped = true
  if (typeof command === 'object') start(command.start)
  const report: SoakReport = {
    answers: Object.fromEntries(answers),
    faults: [...faults].map(([what, count]) => `${count} × ${what}`),
  }
  process.send?.(report)
})
process.once('disconnect', () => process.exit(0))

function start(order: SoakOrder): void {
  const port = (nth: number): number => order.ports[nth % order.ports.length] ?? 0
  for (let nth = 0; nth < order.busy; nth++) keepBusy(order, port(nth))
  for (let nth = 0; nth < order.slowReaders; nth++) readSlowly(order, port(nth))
  for (let nth = 0; nth < order.slowWriters; nth++) writeSlowly(order, port(nth))
}

function count(status: number): void {
  const what = expected[status]
  if (what === undefined) note(`status ${status}`)
  else answers.set(what, (answers.get(what) ?? 0) + 1)
}

function note(what: string): void {
  faults.set(what, (faults.get(what) ?? 0) + 1)
}

const below = (limit: number): number => Math.floor(Math.random() * limit)

function activeKey({ group, clients }: SoakOrder): string {
  const active = Math.ceil(clients * activeShare)
  const first = Math.floor(Date.now() / moveEveryMs) * active
  return keyOf(group, (first + below(active)) % clients)
}

/** One of the kinds of request that fast clients send. */
function nextRequest(order: SoakOrder): { head: string; bodyBytes: number } {
  const dice = Math.random()
  const get = (key: string, query = 'limit=20') => ({
    head: requestHead({ method: 'GET', path: `/v1/pets?${query}`, key }),
    bodyBytes: 0,
  })
  if (dice < 0.08) return get(keyOf(order.exhaustedGroup, below(order.exhaustedClients)))
  if (dice < 0.12) return get(keyOf('unknown', below(1e9)))
  const key = activeKey(order)
  if (dice < 0.15) return get(key, `bytes=${downloadBytes}`)
  if (dice < 0.18)
    return {
      head: requestHead({ method: 'POST', path: '/v1/pets', key, bodyBytes: uploadBytes }),
      bodyBytes: uploadBytes,
    }
  return get(key)
}

/** A connection that sends up to some hundred requests and is closed, one time in five with an answer due; then the next. */
function keepBusy(order: SoakOrder, port: number): void {
  if (stopped) return
  let left = 1 + below(400)
  const breaksOff = Math.random() < 0.2
  const next = (connection: Connection): void => {
    if (stopped) return connection.destroy()
    const { head, bodyBytes } = nextRequest(order)
    left -= 1
    if (left >= 0) connection.send(head, bodyBytes)
    if (left > 0 || (left === 0 && !breaksOff)) return
    connection.destroy()
    setImmediate(keepBusy, order, port)
  }
  openConnection(port, {
    onReady: next,
    onAnswer: ({ status, head }, connection) => {
      count(status)
      // The gateway closes after this one.
      if (/\r\nconnection: close/i.test(head)) {
        connection.destroy()
        setImmediate(keepBusy, order, port)
      } else next(connection)
    },
    onEnd: ({ cause, waiting }) => {
      if (stopped) return
      if (waiting) note(`a request lost: ${cause}`)
      setTimeout(keepBusy, 50, order, port)
    },
  })
}

/** Reads a large answer in small pieces, pausing between them; every other time it leaves before the end. */
function readSlowly(order: SoakOrder, port: number): void {
  if (stopped) return
  const stopsAt = Math.random() < 0.5 ? below(slowBytes) : Infinity
  const socket = connect({ port, host: '127.0.0.1' })
  let read = 0
  socket.once('connect', () =>
    socket.write(
      requestHead({ method: 'GET', path: `/v1/pets?bytes=${slowBytes}`, key: activeKey(order) }),
    ),
  )
  socket.on('data', (chunk: Buffer) => {
    if (read === 0) count(Number(chunk.toString('latin1', 9, 12)))
    read += chunk.length
    socket.pause()
    if (read >= Math.min(stopsAt, slowBytes)) socket.destroy()
    else setTimeout(() => socket.resume(), 50)
  })
  endThen(socket, () => readSlowly(order, port))
}

/** Sends a head byte by byte, or a body in small pieces; it may give up, or be told that it took too long. */
function writeSlowly(order: SoakOrder, port: number): void {
  if (stopped) return
  const key = activeKey(order)
  const head = requestHead({ method: 'POST', path: '/v1/pets', key, bodyBytes: uploadBytes })
  const slowHead = Math.random() < 0.3
  const pieces = slowHead
    ? head.split('')
    : [head, ...Array.from({ length: 40 }, () => 'x'.repeat(uploadBytes / 40))]
  const givesUpAt = Math.random() < 0.3 ? below(pieces.length) : Infinity
  const socket = connect({ port, host: '127.0.0.1' })
  let at = 0
  const timer = setInterval(() => {
    const piece = pieces[at++]
    if (at > givesUpAt || stopped) socket.destroy()
    else if (piece !== undefined) socket.write(piece)
  }, 100)
  socket.once('data', (chunk: Buffer) => {
    count(Number(chunk.toString('latin1', 9, 12)))
    socket.destroy()
  })
  endThen(socket, () => {
    clearInterval(timer)
    writeSlowly(order, port)
  })
}

/** Slow ones may be cut off by a backend that fails on purpose: whatever ends them, the next comes. */
function endThen(socket: Socket, next: () => void): void {
  socket.on('error', () => undefined)
  socket.once('close', () => setTimeout(next, 100))
}
