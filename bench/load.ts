/**
 * The load generator, a process of its own, which also reads the CPU time of the measured processes at the edges of each window.
 * Under a constant rate request n is due n intervals after the start, whatever became of those before it, and its latency counts
 * from then: a stall is charged to all who wait (no coordinated omission).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { LoadOrder, LoadOutcome, LoadWindow, MeasuredLength } from './load-order.ts'
import { askProbe, readCounters } from './metrics.ts'
import { obey } from './own-process.ts'
import { cpuMicroseconds, machineTicks, rssBytes, waitMicroseconds } from './proc.ts'
import { quantile } from './statistics.ts'
import { openConnection, requestHead, type Answer, type Connection } from './wire.ts'

/** Shorter than what is to be told apart, longer than a turn of the loop: the generator must leave the cores to the others. */
const napMs = 0.05
const sampleEveryMs = 200
const reopenMs = 50
const answersWithinMs = 20_000

interface Traffic {
  answers: number
  isMeasuring: boolean
  isOver: boolean
  readonly latenciesMs: number[]
  readonly faults: Map<string, number>
  /** Connections that wait for a request to be due. */
  readonly free: ((dueMs: number) => void)[]
  readonly open: Set<Connection>
  /** Undefined once all requests have been sent. */
  nextHead(): string | undefined
}

obey(load)

async function load(order: LoadOrder): Promise<LoadOutcome> {
  const traffic = startTraffic(order)
  const { length, requestsPerSecond } = order
  if (requestsPerSecond !== undefined) void dispatch(traffic, requestsPerSecond)
  const measured =
    'requests' in length
      ? await allAnswered(traffic, length)
      : await measure(order, length, traffic)
  traffic.isOver = true
  let networkBytes = 0
  for (const { socket, destroy } of traffic.open) {
    networkBytes += socket.bytesRead + socket.bytesWritten
    destroy()
  }
  return {
    ...measured,
    p50Ms: quantile(traffic.latenciesMs, 0.5),
    p99Ms: quantile(traffic.latenciesMs, 0.99),
    longestMs: quantile(traffic.latenciesMs, 1),
    answers: traffic.answers,
    networkBytes,
    faults: [
      ...[...traffic.faults].map(([what, count]) => `${count} × ${what}`),
      ...(traffic.answers === 0 ? ['no answers'] : []),
      ...tooFew(order, measured.windows),
    ],
  }
}

function startTraffic(order: LoadOrder): Traffic {
  const traffic: Traffic = {
    answers: 0,
    isMeasuring: false,
    isOver: false,
    latenciesMs: [],
    faults: new Map(),
    free: [],
    open: new Set(),
    nextHead: headsOf(order),
  }
  for (let nth = 0; nth < order.connections; nth++)
    connect(order, traffic, order.ports[nth % order.ports.length] ?? 0)
  return traffic
}

function headsOf({ path, keys, pick, length }: LoadOrder): () => string | undefined {
  const heads = keys.map((key) => requestHead(path, { key }))
  const most = 'requests' in length ? length.requests : Infinity
  let sent = 0
  return () => {
    const at = pick === 'turn' ? sent % heads.length : Math.floor(Math.random() * heads.length)
    return sent++ < most ? heads[at] : undefined
  }
}

/** Opens a connection that sends a request when it is told to, or as soon as it is free; and the next when it ends. */
function connect(order: LoadOrder, traffic: Traffic, port: number): void {
  let dueMs = 0
  const send = (atMs: number): void => {
    const head = traffic.isOver ? undefined : traffic.nextHead()
    if (head === undefined) return
    dueMs = atMs
    connection.send(head)
  }
  const onFree = (): void => {
    if (order.requestsPerSecond === undefined) send(performance.now())
    else traffic.free.push(send)
  }
  const connection = openConnection(port, {
    onReady: onFree,
    onAnswer: (answer) => {
      traffic.answers += 1
      if (traffic.isMeasuring) traffic.latenciesMs.push(performance.now() - dueMs)
      judge(answer, order, traffic)
      if (!answer.isLast) return onFree()
      traffic.open.delete(connection)
      connection.destroy()
      connect(order, traffic, port)
    },
    onEnd: ({ cause, waiting }) => {
      traffic.open.delete(connection)
      const at = traffic.free.indexOf(send)
      if (at >= 0) traffic.free.splice(at, 1)
      if (traffic.isOver) return
      fault(traffic, waiting ? `a request lost: ${cause}` : `a connection closed: ${cause}`)
      // Connections that cannot be had must not become a busy loop.
      setTimeout(() => (traffic.isOver ? undefined : connect(order, traffic, port)), reopenMs)
    },
  })
  traffic.open.add(connection)
}

function judge(answer: Answer, { expect }: LoadOrder, traffic: Traffic): void {
  const { status, body, partOfBody = '' } = expect
  if (answer.status !== status) fault(traffic, `status ${answer.status}`)
  else if (body === undefined ? !answer.body.includes(partOfBody) : answer.body !== body)
    fault(traffic, 'a wrong body')
}

function fault({ faults }: Traffic, what: string): void {
  faults.set(what, (faults.get(what) ?? 0) + 1)
}

/** Hands each request that is due to a connection, at random, as clients reach processes at random. */
async function dispatch(traffic: Traffic, requestsPerSecond: number): Promise<void> {
  const intervalMs = 1000 / requestsPerSecond
  const nap = new Int32Array(new SharedArrayBuffer(4))
  while (traffic.free.length === 0 && !traffic.isOver) await sleep(1)
  const startMs = performance.now()
  for (let due = 0; !traffic.isOver;) {
    const nowMs = performance.now()
    for (; startMs + due * intervalMs <= nowMs && traffic.free.length > 0; due++) {
      const at = Math.floor(Math.random() * traffic.free.length)
      traffic.free.splice(at, 1)[0]?.(startMs + due * intervalMs)
    }
    // Timers are too coarse for this, and a loop without a pause would hold a core.
    Atomics.wait(nap, 0, 0, napMs)
    await new Promise(setImmediate)
  }
}

/** At a constant rate nearly all of what was due in the windows must have been answered in them. */
function tooFew({ requestsPerSecond }: LoadOrder, windows: readonly LoadWindow[]): string[] {
  if (requestsPerSecond === undefined) return []
  return windows
    .filter(({ requests, seconds }) => requests < 0.95 * requestsPerSecond * seconds)
    .map(({ requests, seconds }) => {
      const planned = (requestsPerSecond * seconds).toFixed(0)
      return `only ${requests} of ${planned} requests were answered in time`
    })
}

const unmeasured = {
  windows: [],
  rssBytes: [],
  counters: { storeCalls: NaN, requests: NaN },
  allocatedBytesPerRequest: NaN,
}

async function allAnswered(traffic: Traffic, { requests }: { readonly requests: number }) {
  const deadline = performance.now() + answersWithinMs + requests
  while (traffic.answers < requests && traffic.faults.size === 0) {
    if (performance.now() > deadline) fault(traffic, 'no answer')
    await sleep(1)
  }
  return unmeasured
}

async function measure(order: LoadOrder, length: MeasuredLength, traffic: Traffic) {
  const { pids = [], admins = [], probe } = order
  const rss = pids.map(() => 0)
  const sampler = setInterval(() => {
    pids.forEach((pid, index) => (rss[index] = Math.max(rss[index] ?? 0, rssBytes(pid))))
  }, sampleEveryMs)
  const allocation = async () => ({
    bytes: probe === undefined ? NaN : (await askProbe(probe)).allocatedBytes,
    answers: traffic.answers,
  })
  await sleep(length.warmUpSeconds * 1000)
  // A page of metrics costs its process memory too: it is asked for outside of what the probe counts.
  const countersBefore = await readCounters(admins)
  const allocatedBefore = await allocation()
  const windows = await measureWindows(pids, length, traffic)
  const allocatedAfter = await allocation()
  const countersAfter = await readCounters(admins)
  clearInterval(sampler)
  return {
    windows,
    rssBytes: rss,
    counters: {
      storeCalls: countersAfter.storeCalls - countersBefore.storeCalls,
      requests: countersAfter.requests - countersBefore.requests,
    },
    allocatedBytesPerRequest:
      (allocatedAfter.bytes - allocatedBefore.bytes) /
      (allocatedAfter.answers - allocatedBefore.answers),
  }
}

async function measureWindows(
  pids: readonly number[],
  { windows, windowSeconds }: MeasuredLength,
  traffic: Traffic,
): Promise<LoadWindow[]> {
  const edge = () => ({
    atMs: performance.now(),
    answers: traffic.answers,
    cpu: pids.map(cpuMicroseconds),
    wait: pids.map(waitMicroseconds),
    ticks: machineTicks(),
  })
  const growth = (from: readonly number[], to: readonly number[]): number[] =>
    to.map((total, index) => total - (from[index] ?? NaN))
  const measured: LoadWindow[] = []
  traffic.isMeasuring = true
  for (let from = edge(); measured.length < windows;) {
    await sleep(windowSeconds * 1000)
    const to = edge()
    measured.push({
      requests: to.answers - from.answers,
      seconds: (to.atMs - from.atMs) / 1000,
      cpuMicroseconds: growth(from.cpu, to.cpu),
      waitMicroseconds: growth(from.wait, to.wait),
      stolenShare: (to.ticks.stolen - from.ticks.stolen) / (to.ticks.all - from.ticks.all),
    })
    from = to
  }
  traffic.isMeasuring = false
  return measured
}
