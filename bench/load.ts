/**
 * The load generator, a process of its own, which also reads the CPU time of the measured processes at the edges of each window.
 * Under a constant rate request n is due n intervals after the start, whatever became of those before it, and its latency counts
 * from then: a stall is charged to all who wait (no coordinated omission). Over HTTP/2 it lets h2load send.
 */
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { LoadOrder, LoadOutcome, LoadWindow, MeasuredLength } from './load-order.ts'
import { askProbe, readCounters } from './metrics.ts'
import { obey } from './own-process.ts'
import { cpuMicroseconds, machineTicks, rssBytes, waitMicroseconds } from './proc.ts'
import { quantile } from './statistics.ts'
import { openConnection, requestHead, type Answer, type Connection } from './wire.ts'

/** Shorter than what is to be told apart, longer than a turn of the loop: the generator must leave the cores to the others. */
const napMs = 0.05
const sampleEveryMs = 50
const reopenMs = 50
/** Asking the process under test holds up its requests: at a constant rate they are to have their answers before the window begins. */
const settleMs = 500
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
  /** What follows each head. */
  readonly body: Buffer
}

obey(load)

async function load(order: LoadOrder): Promise<LoadOutcome> {
  const traffic = startTraffic(order)
  const { length, requestsPerSecond } = order
  if (requestsPerSecond !== undefined) void dispatch(traffic, requestsPerSecond)
  if ('requests' in length) await allAnswered(order, length.requests, traffic)
  const measured = await measure(order, 'requests' in length ? unmeasured : length, traffic)
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
    body: Buffer.alloc(order.uploadBytes ?? 0, 'x'),
  }
  if (order.over === 'http2') return traffic
  for (let nth = 0; nth < order.connections; nth++)
    connect(order, traffic, order.ports[nth % order.ports.length] ?? 0)
  return traffic
}

function headsOf({ path, keys, pick, length, uploadBytes }: LoadOrder): () => string | undefined {
  const more = `Content-Length: ${uploadBytes}\r\n`
  const post = uploadBytes === undefined ? {} : { method: 'POST', more }
  const heads = keys.map((key) => requestHead(path, { key, ...post }))
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
    if (traffic.body.length > 0) connection.socket.write(traffic.body)
  }
  const onFree = (): void => {
    if (order.requestsPerSecond === undefined) send(performance.now())
    else traffic.free.push(send)
  }
  const events = {
    onReady: onFree,
    onAnswer: (answer: Answer) => {
      traffic.answers += 1
      if (traffic.isMeasuring) traffic.latenciesMs.push(performance.now() - dueMs)
      judge(answer, order, traffic)
      if (!answer.isLast) return onFree()
      traffic.open.delete(connection)
      connection.destroy()
      connect(order, traffic, port)
    },
    onEnd: ({ cause, waiting }: { readonly cause: string; readonly waiting: boolean }) => {
      traffic.open.delete(connection)
      const at = traffic.free.indexOf(send)
      if (at >= 0) traffic.free.splice(at, 1)
      if (traffic.isOver) return
      fault(traffic, waiting ? `a request lost: ${cause}` : `a connection closed: ${cause}`)
      // Connections that cannot be had must not become a busy loop.
      setTimeout(() => (traffic.isOver ? undefined : connect(order, traffic, port)), reopenMs)
    },
  }
  const connection = openConnection(port, events, { isSecure: order.over !== undefined })
  traffic.open.add(connection)
}

function judge(answer: Answer, { expect }: LoadOrder, traffic: Traffic): void {
  const { status, body, partOfBody = '', bodyBytes = answer.bodyBytes } = expect
  if (answer.status !== status) return fault(traffic, `status ${answer.status}`)
  const isWhole = body === undefined ? answer.body.includes(partOfBody) : answer.body === body
  if (!isWhole || answer.bodyBytes !== bodyBytes) fault(traffic, 'a wrong body')
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

/** length: an option of h2load that says how many requests it sends, or how many seconds. It checks no body. */
async function letH2loadSend(order: LoadOrder, length: string, traffic: Traffic): Promise<void> {
  const options = ['-c16', '-m16', length, '-H', `authorization: Bearer ${order.keys[0]}`]
  const url = `https://127.0.0.1:${order.ports[0]}${order.path}`
  const sending = promisify(execFile)('h2load', [...options, url])
  const end = (): unknown => sending.child.kill()
  process.once('exit', end)
  const { stdout } = await sending
  process.off('exit', end)
  traffic.answers += Number(/(\d+) succeeded, 0 failed/.exec(stdout)?.[1] ?? NaN)
  if (!/protocol: h2$/m.test(stdout) || !stdout.includes(' 2xx, 0 3xx, 0 4xx, 0 5xx'))
    fault(traffic, stdout.match(/^(?:requests|status codes):.*$/gm)?.join(', ') ?? stdout)
}

const unmeasured = { warmUpSeconds: 0, windowSeconds: 0, windows: 0 }

async function allAnswered(order: LoadOrder, requests: number, traffic: Traffic): Promise<void> {
  if (order.over === 'http2') await letH2loadSend(order, `-n${requests}`, traffic)
  const deadline = performance.now() + answersWithinMs + requests
  while (traffic.answers < requests && traffic.faults.size === 0) {
    if (performance.now() > deadline) fault(traffic, 'no answer')
    await sleep(1)
  }
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
  const goOn = (seconds: number): Promise<void> =>
    order.over === 'http2'
      ? letH2loadSend(order, `-D${Math.ceil(seconds)}`, traffic)
      : sleep(seconds * 1000)
  if (length.warmUpSeconds > 0) await goOn(length.warmUpSeconds)
  // A page of metrics costs its process memory too: it is asked for outside of what the probe counts.
  const countersBefore = await readCounters(admins)
  const allocatedBefore = await allocation()
  if (order.requestsPerSecond !== undefined) await sleep(settleMs)
  const windows = await measureWindows(pids, { ...length, goOn }, traffic)
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
  { windows, windowSeconds, goOn }: MeasuredLength & { goOn(seconds: number): Promise<void> },
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
    await goOn(windowSeconds)
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
