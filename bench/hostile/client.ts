/** The victim: a valid client in a process of its own, which asks at a fixed rate, or again as soon as it is answered. */
import { setTimeout as sleep } from 'node:timers/promises'
import { obey } from '../own-process.ts'
import { openAsker, type Asker } from '../wire.ts'
import { openHttp2 } from './http2.ts'
import type { ClientOrder, ClientOutcome } from './orders.ts'

const TICK_MS = 1
/** Whoever has not been answered by then counts as `unanswered`. */
const PATIENCE_MS = 15_000

obey(async (order: ClientOrder): Promise<ClientOutcome> => {
  const { connections, everyMs, patienceMs = PATIENCE_MS } = order
  const beginMs = performance.now() + order.warmUpMs
  const endMs = beginMs + order.ms
  const answers: Record<string, number> = {}
  const waitsMs: number[] = []
  const askOne = askerOf(order)
  /** Requests by when they were due: those that wait for a connection, and those that wait for an answer. */
  const due: number[] = []
  const asked = new Set<{ readonly dueMs: number }>()
  let isOver = false

  const settle = (dueMs: number, status: string): void => {
    if (dueMs < beginMs || isOver) return
    answers[status] = (answers[status] ?? 0) + 1
    waitsMs.push(performance.now() - dueMs)
  }
  const ask = async (dueMs: number): Promise<void> => {
    const request = { dueMs }
    asked.add(request)
    const status = await askOne()
    if (asked.delete(request)) settle(dueMs, status)
    if (everyMs === undefined && performance.now() < endMs) due.push(performance.now())
    next()
  }
  const next = (): void => {
    while (due.length > 0 && asked.size < connections) void ask(due.shift() ?? 0)
  }

  if (everyMs === undefined) for (let i = 0; i < connections; i++) due.push(performance.now())
  for (let dueMs = performance.now(); performance.now() < endMs; await sleep(TICK_MS)) {
    if (everyMs !== undefined) for (; dueMs <= performance.now(); dueMs += everyMs) due.push(dueMs)
    next()
  }
  const patientUntilMs = performance.now() + patienceMs
  while (asked.size + due.length > 0 && performance.now() < patientUntilMs) await sleep(TICK_MS)
  for (const { dueMs } of asked) settle(dueMs, 'unanswered')
  for (const dueMs of due) settle(dueMs, 'unanswered')
  isOver = true
  return { answers, waitsMs }
})

/** Sends the next request, on a free connection or a new one; resolves with the status, or with why there is none. */
function askerOf(order: ClientOrder): () => Promise<string> {
  const { port, head, heads, http2Key, fresh = false, isSecure = false } = order
  if (http2Key !== undefined) return openHttp2(port, http2Key)
  const free: Asker[] = []
  let sent = 0
  const freeOne = (): Asker => {
    for (let asker = free.pop(); asker; asker = free.pop()) if (asker.isOpen()) return asker
    return openAsker(port, { isSecure })
  }
  return async () => {
    const asker = freeOne()
    const answer = await asker.ask(heads?.[sent++] ?? head)
    if (fresh) asker.close()
    else if (asker.isOpen()) free.push(asker)
    return typeof answer === 'string' ? answer : String(answer.status)
  }
}
