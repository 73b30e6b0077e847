/**
 * A constant rate over keep-alive connections: request n is due n intervals after the start, whatever became of those
 * before it, and its latency counts from then (no coordinated omission). autocannon's own rate option sends each second's share at
 * once, at the start of the second, which is saturation for a part of it.
 */
import { connect, type Socket } from 'node:net'
import type { Expectation, LoadOrder, LoadOutcome, MeasuredLength } from './load.ts'
import { measuredWindow } from './measured-window.ts'

/** Shorter than what is to be told apart, longer than a turn of the loop: the generator must leave the cores to the others. */
const napMs = 0.05

export interface SteadyOrder extends LoadOrder {
  readonly length: MeasuredLength
  readonly requestsPerSecond: number
}

interface Connection {
  readonly socket: Socket
  readonly requests: readonly Buffer[]
  sent: number
  /** When the request under way was due, on the clock of performance.now(). */
  dueMs: number
  received: string
}

/** Resolves when the measured time is over. */
export async function steadyLoad(order: SteadyOrder): Promise<LoadOutcome> {
  const { length, pids, requestsPerSecond, expect } = order
  const window = measuredWindow(pids)
  const faults = new Map<string, number>()
  const fault = (what: string): void => void faults.set(what, (faults.get(what) ?? 0) + 1)
  const free = await openConnections(order, { window, expect, fault })
  const intervalMs = 1000 / requestsPerSecond
  const startMs = performance.now()
  const openMs = startMs + length.warmUpSeconds * 1000
  const closeMs = openMs + length.measuredSeconds * 1000
  let measuring = false
  let due = 0
  const nap = new Int32Array(new SharedArrayBuffer(4))
  for (;;) {
    const nowMs = performance.now()
    if (!measuring && nowMs >= openMs) {
      measuring = true
      window.open()
    }
    if (nowMs >= closeMs) break
    for (; startMs + due * intervalMs <= nowMs; due++) {
      const connection = free.shift()
      if (!connection) break
      send(connection, startMs + due * intervalMs)
    }
    // Timers are too coarse for this, and a loop without a pause would hold a core.
    Atomics.wait(nap, 0, 0, napMs)
    await new Promise(setImmediate)
  }
  window.close()
  for (const connection of free) connection.socket.destroy()
  const figures = window.figures()
  const planned = requestsPerSecond * length.measuredSeconds
  if (figures.requests < planned * 0.95)
    fault(`only ${figures.requests} of ${planned.toFixed(0)} requests were answered in time`)
  return { ...figures, faults: Array.from(faults, ([what, count]) => `${count} x ${what}`) }
}

function send(connection: Connection, dueMs: number): void {
  const request = connection.requests[connection.sent++ % connection.requests.length]
  connection.dueMs = dueMs
  connection.received = ''
  if (request) connection.socket.write(request)
}

interface Judge {
  readonly window: { answer(latencyMs: number): void }
  readonly expect: Expectation
  readonly fault: (what: string) => void
}

/** The connections that wait for their next request; each returns there when its answer is complete. */
async function openConnections(order: LoadOrder, judge: Judge): Promise<Connection[]> {
  const { hostname, port, pathname, search, host } = new URL(order.url)
  const requests = order.keys.map((key) =>
    Buffer.from(
      `GET ${pathname}${search} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n\r\n`,
    ),
  )
  const free: Connection[] = []
  for (let nth = 0; nth < order.connections; nth++) {
    const socket = connect(Number(port), hostname).setNoDelay(true).setEncoding('latin1')
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve)
      socket.once('error', reject)
    })
    const start = Math.floor((nth * requests.length) / order.connections)
    const own = [...requests.slice(start), ...requests.slice(0, start)]
    const connection: Connection = { socket, requests: own, sent: 0, dueMs: 0, received: '' }
    socket.on('data', (chunk: string) => {
      connection.received += chunk
      if (!judged(connection.received, judge)) return
      judge.window.answer(performance.now() - connection.dueMs)
      free.push(connection)
    })
    socket.on('error', ({ message }) => judge.fault(message))
    socket.on('end', () => judge.fault('connection closed'))
    free.push(connection)
  }
  return free
}

/** Whether the answer is complete; if so its status and body have been checked. */
function judged(received: string, { expect, fault }: Judge): boolean {
  const headEnd = received.indexOf('\r\n\r\n')
  if (headEnd === -1) return false
  const length = /\r\ncontent-length: *(\d+)/i.exec(received.slice(0, headEnd + 2))?.[1]
  if (length === undefined) {
    fault('answer without Content-Length')
    return true
  }
  const body = received.slice(headEnd + 4)
  if (body.length < Number(length)) return false
  const status = Number(received.slice(9, 12))
  if (status !== expect.status) fault(`answer with status ${status}`)
  else if (expect.exact ? body !== expect.body : !body.includes(expect.body)) fault('wrong body')
  return true
}
