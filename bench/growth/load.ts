/** Closed-loop load in a process of its own; the CPU of the measured processes is read at each window's edges. */
import { cpuMicroseconds } from '../cpu.ts'
import { keyOf } from './clients.ts'
import { scrapeCounters, type Counters } from './metrics.ts'
import { rssBytes } from './proc.ts'
import { quantile } from './statistics.ts'
import { openConnection, requestHead, type Answer, type Connection } from './wire.ts'

export interface LoadOrder {
  /** Shared evenly by the connections. */
  readonly ports: readonly number[]
  readonly connections: number
  readonly group: string
  readonly clients: number
  /** Each request is of a random client, this share of them of the first one. */
  readonly hotShare: number
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly uploadBytes: number
  /** Of every answer, whose status must be 200. */
  readonly bodyBytes: number
  /** each-client-once: one request of every client, and no measurement. */
  readonly length:
    | 'each-client-once'
    | { readonly warmUpSeconds: number; readonly windowSeconds: number; readonly windows: number }
  /** Processes whose CPU time is read. */
  readonly pids: readonly number[]
  /** Admin listeners whose counters are read at the edges of the measurement. */
  readonly admins: readonly string[]
}

export interface LoadWindow {
  readonly requests: number
  readonly seconds: number
  /** Used within the window, in the order of `pids`. */
  readonly cpuMicroseconds: readonly number[]
}

export interface LoadOutcome {
  readonly windows: readonly LoadWindow[]
  readonly p50Ms: number
  readonly p99Ms: number
  /** Of the generator itself, over all windows. */
  readonly generatorMicroseconds: number
  /** The most seen during the windows, in the order of `pids`. */
  readonly rssBytes: readonly number[]
  /** Growth of the counters from the first window's start to the last one's end. */
  readonly counters: Counters
  /** Answers in all, warm-up included. */
  readonly answers: number
  /** Sent and received on the clients' side, heads and bodies, warm-up included. */
  readonly networkBytes: number
  /** What was not as expected, from the first request on; empty for a valid run. */
  readonly faults: readonly string[]
}

interface Edge {
  readonly atMs: number
  readonly answers: number
  readonly cpu: readonly number[]
}

const sampleEveryMs = 200

process.on('message', (order: LoadOrder) => {
  void load(order).then((outcome) => process.send?.(outcome))
})
process.once('disconnect', () => process.exit(0))

async function load(order: LoadOrder): Promise<LoadOutcome> {
  const faults = new Map<string, number>()
  const fault = (what: string): void => void faults.set(what, (faults.get(what) ?? 0) + 1)
  const latenciesMs: number[] = []
  const state = { answers: 0, measuring: false, stopped: false }
  const nextHead = headsOf(order)
  const traffic = startTraffic(order, { state, latenciesMs, fault, nextHead })

  const { length } = order
  const measured =
    length === 'each-client-once' ? undefined : await measure(order, length, { state })
  if (length === 'each-client-once') await traffic.allAnswered
  state.stopped = true
  const networkBytes = traffic.end()
  const sorted = Float64Array.from(latenciesMs).sort()
  return {
    windows: measured?.windows ?? [],
    p50Ms: quantile(sorted, 0.5),
    p99Ms: quantile(sorted, 0.99),
    generatorMicroseconds: measured?.generatorMicroseconds ?? NaN,
    rssBytes: measured?.rss ?? [],
    counters: measured?.counters ?? { storeCalls: NaN, admitted: NaN, refused: NaN },
    answers: state.answers,
    networkBytes,
    faults: [
      ...[...faults].map(([what, count]) => `${count} × ${what}`),
      ...(state.answers === 0 ? ['no answers'] : []),
    ],
  }
}

/** The next request's head, undefined when every client has had its one. */
function headsOf(order: LoadOrder): () => string | undefined {
  const { clients, group, hotShare, length, method, path, uploadBytes } = order
  const heads = Array.from({ length: clients }, (_, index) =>
    requestHead({ method, path, key: keyOf(group, index), bodyBytes: uploadBytes }),
  )
  let next = 0
  if (length === 'each-client-once') return () => heads[next++]
  return () =>
    Math.random() < hotShare ? heads[0] : heads[Math.floor(Math.random() * heads.length)]
}

interface Traffic {
  readonly state: { answers: number; measuring: boolean; stopped: boolean }
  readonly latenciesMs: number[]
  readonly fault: (what: string) => void
  readonly nextHead: () => string | undefined
}

function startTraffic(order: LoadOrder, { state, latenciesMs, fault, nextHead }: Traffic) {
  const finished = Promise.withResolvers<void>()
  const open = new Set<Connection>()
  let busy = order.connections
  const idle = (): void => {
    busy -= 1
    if (busy === 0) finished.resolve()
  }
  const start = (port: number): void => {
    let sentMs = 0
    const sendNext = (connection: Connection): void => {
      const head = state.stopped ? undefined : nextHead()
      if (head === undefined) return idle()
      sentMs = performance.now()
      connection.send(head, order.uploadBytes)
    }
    const onAnswer = (answer: Answer, connection: Connection): void => {
      state.answers += 1
      if (state.measuring) latenciesMs.push(performance.now() - sentMs)
      if (answer.status !== 200) fault(`status ${answer.status}`)
      else if (answer.bodyBytes !== order.bodyBytes) fault(`a body of ${answer.bodyBytes} bytes`)
      sendNext(connection)
    }
    const onEnd = ({ cause, waiting }: { cause: string; waiting: boolean }): void => {
      open.delete(connection)
      if (state.stopped) return
      fault(waiting ? `a request lost: ${cause}` : `a connection closed: ${cause}`)
      // Connections that cannot be had must not become a busy loop.
      setTimeout(() => (state.stopped ? undefined : start(port)), 50)
    }
    const connection = openConnection(port, { onReady: sendNext, onAnswer, onEnd })
    open.add(connection)
  }
  for (let nth = 0; nth < order.connections; nth++)
    start(order.ports[nth % order.ports.length] ?? 0)
  return {
    allAnswered: finished.promise,
    /** Returns the bytes that the connections have sent and received. */
    end: (): number => {
      let bytes = 0
      for (const { socket, destroy } of open) {
        bytes += socket.bytesRead + socket.bytesWritten
        destroy()
      }
      return bytes
    },
  }
}

async function measure(
  { pids, admins }: LoadOrder,
  length: Exclude<LoadOrder['length'], string>,
  { state }: Pick<Traffic, 'state'>,
) {
  const wait = (seconds: number): Promise<void> =>
    new Promise((resolve) => setTimeout(resolve, seconds * 1000))
  const edge = (): Edge => ({
    atMs: performance.now(),
    answers: state.answers,
    cpu: pids.map(cpuMicroseconds),
  })
  const rss = pids.map(() => 0)
  const sampler = setInterval(() => {
    pids.forEach((pid, index) => (rss[index] = Math.max(rss[index] ?? 0, rssBytes(pid))))
  }, sampleEveryMs)

  await wait(length.warmUpSeconds)
  const before = await scrapeCounters(admins)
  const own = process.cpuUsage()
  const windows: LoadWindow[] = []
  state.measuring = true
  let from = edge()
  for (let nth = 0; nth < length.windows; nth++) {
    await wait(length.windowSeconds)
    const to = edge()
    windows.push({
      requests: to.answers - from.answers,
      seconds: (to.atMs - from.atMs) / 1000,
      cpuMicroseconds: to.cpu.map((total, index) => total - (from.cpu[index] ?? NaN)),
    })
    from = to
  }
  state.measuring = false
  const { user, system } = process.cpuUsage(own)
  const after = await scrapeCounters(admins)
  clearInterval(sampler)
  const counters = {
    storeCalls: after.storeCalls - before.storeCalls,
    admitted: after.admitted - before.admitted,
    refused: after.refused - before.refused,
  }
  return { windows, rss, counters, generatorMicroseconds: user + system }
}
