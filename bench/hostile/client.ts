/** The victim: a valid client in a process of its own, which asks at a fixed rate, or again as soon as it is answered. */
import { setTimeout as sleep } from 'node:timers/promises'
import { openConnection, type Connection } from '../growth/wire.ts'
import { obey } from './child.ts'
import { openHttp2, type Http2Request } from './http2.ts'
import type { ClientOrder, ClientOutcome } from './orders.ts'

const TICK_MS = 1
/** Whoever has not been answered by then counts as `unanswered`. */
const PATIENCE_MS = 15_000

/** Asks at a fixed rate on one connection of HTTP/2. */
async function askHttp2(order: ClientOrder, request: Http2Request): Promise<ClientOutcome> {
  const { everyMs = 5, patienceMs = PATIENCE_MS } = order
  const beginMs = performance.now() + order.warmUpMs
  const endMs = beginMs + order.ms
  const answers: Record<string, number> = {}
  const waitsMs: number[] = []
  const connection = openHttp2(order.port, request)
  const asked = new Set<number>()
  let unanswered = false
  const settle = (dueMs: number, status: string): void => {
    if (unanswered || !asked.delete(dueMs) || dueMs < beginMs) return
    answers[status] = (answers[status] ?? 0) + 1
    waitsMs.push(performance.now() - dueMs)
  }
  for (let dueMs = performance.now(); performance.now() < endMs; await sleep(TICK_MS)) {
    for (; dueMs <= performance.now(); dueMs += everyMs) {
      const due = dueMs
      asked.add(due)
      void connection.ask().then((status) => settle(due, status))
    }
  }
  const patientUntilMs = performance.now() + patienceMs
  while (asked.size > 0 && performance.now() < patientUntilMs) await sleep(TICK_MS)
  for (const dueMs of asked) settle(dueMs, 'unanswered')
  unanswered = true
  connection.close()
  return { answers, waitsMs: waitsMs.sort((a, b) => a - b) }
}

async function ask(order: ClientOrder): Promise<ClientOutcome> {
  if (order.http2 !== undefined) return askHttp2(order, order.http2)
  const { port, head, bodyBytes = 0, everyMs, patienceMs = PATIENCE_MS } = order
  const { fresh = false, tls = false } = order
  const beginMs = performance.now() + order.warmUpMs
  const endMs = beginMs + order.ms
  const answers: Record<string, number> = {}
  const waitsMs: number[] = []
  const free: Connection[] = []
  const due: number[] = []
  const asked = new Map<object, number>()
  let sent = 0

  const settle = (dueMs: number, status: string): void => {
    if (dueMs < beginMs) return
    answers[status] = (answers[status] ?? 0) + 1
    waitsMs.push(performance.now() - dueMs)
  }
  const next = (): void => {
    while (due.length > 0 && (free.length > 0 || asked.size < order.connections)) {
      const connection = free.pop() ?? open()
      asked.set(connection, due.shift() ?? 0)
      connection.send(order.heads?.[sent++] ?? head, bodyBytes)
    }
  }
  const again = (): void => {
    const now = performance.now()
    if (everyMs === undefined && now < endMs) due.push(now)
    next()
  }
  const open = (): Connection => {
    const connection: Connection = openConnection(
      port,
      {
        onAnswer: ({ status, head }) => {
          const dueMs = asked.get(connection) ?? 0
          asked.delete(connection)
          if (fresh || /\r\nconnection: close/i.test(head)) connection.destroy()
          else free.push(connection)
          settle(dueMs, String(status))
          again()
        },
        onEnd: ({ cause }) => {
          const dueMs = asked.get(connection)
          asked.delete(connection)
          const at = free.indexOf(connection)
          if (at >= 0) free.splice(at, 1)
          if (dueMs === undefined) return
          settle(dueMs, cause)
          again()
        },
      },
      tls,
    )
    return connection
  }

  if (everyMs === undefined) for (let i = 0; i < order.connections; i++) due.push(performance.now())
  for (let dueMs = performance.now(); performance.now() < endMs; await sleep(TICK_MS)) {
    if (everyMs !== undefined) for (; dueMs <= performance.now(); dueMs += everyMs) due.push(dueMs)
    next()
  }
  const patientUntilMs = performance.now() + patienceMs
  while (asked.size + due.length > 0 && performance.now() < patientUntilMs) await sleep(TICK_MS)
  for (const dueMs of [...asked.values(), ...due]) settle(dueMs, 'unanswered')
  return { answers, waitsMs: waitsMs.sort((a, b) => a - b) }
}

obey<'client.ts'>(ask)
