/** Open-loop load in a process of its own: every client's requests come at times set beforehand, whatever the answers. */
import { keyOf } from './clients.ts'
import { quantile } from './statistics.ts'
import { field, openConnection, requestHead, type Answer, type Connection } from './wire.ts'

/** Clients with equal limits and equal offered load, and the gateways they call. */
export interface PacedGroup {
  readonly name: string
  readonly clients: number
  readonly ports: readonly number[]
  readonly requestsPerMinute: number
}

export interface PacedOrder {
  readonly groups: readonly PacedGroup[]
  readonly path: string
  /** Unix time in ms of the first whole minute; load swells from `leadMs` before and ends with the last minute. */
  readonly startMs: number
  readonly leadMs: number
  readonly minutes: number
}

/** One client in one minute. */
export interface PacedMinute {
  readonly group: string
  readonly client: number
  /** Which of the whole minutes, from 0. */
  readonly minute: number
  readonly offered: number
  /** By the window that the answers say they were charged to. */
  readonly admitted: number
  readonly refused: number
  /** Sent and answered within the minute by this machine's clock, so charged to no other, whatever the answers say. */
  readonly surelyAdmitted: number
}

export interface PacedOutcome {
  readonly minutes: readonly PacedMinute[]
  /** How late requests were sent, after their time, in the whole minutes. */
  readonly lateP99Ms: number
  /** Time to the answer. */
  readonly p50Ms: number
  readonly p99Ms: number
  readonly faults: readonly string[]
}

const minuteMs = 60_000
/** After the last request. */
const answersWithinMs = 20_000

process.on('message', (order: PacedOrder) => {
  void run(order).then((outcome) => process.send?.(outcome))
})
process.once('disconnect', () => process.exit(0))

interface Call {
  readonly dueMs: number
  readonly group: PacedGroup
  readonly client: number
  readonly head: string
}

async function run(order: PacedOrder): Promise<PacedOutcome> {
  const tallies = createTallies(order)
  const faults = new Map<string, number>()
  const fault = (what: string): void => void faults.set(what, (faults.get(what) ?? 0) + 1)
  const latenciesMs: number[] = []
  const lateMs: number[] = []
  let sent = 0
  const pools = new Map<number, Pool>()
  const poolOf = (port: number): Pool => {
    const pool = pools.get(port) ?? createPool(port, fault)
    pools.set(port, pool)
    return pool
  }
  const send = ({ dueMs, group, client, head }: Call): void => {
    const sentMs = Date.now()
    sent += 1
    if (dueMs >= order.startMs) lateMs.push(sentMs - dueMs)
    const port = group.ports[Math.floor(Math.random() * group.ports.length)] ?? 0
    poolOf(port).send(head, (answer) => {
      const answeredMs = Date.now()
      latenciesMs.push(answeredMs - sentMs)
      if (answer === undefined) return
      if (answer.status === 200 || answer.status === 429)
        tallies.note({ group, client, sentMs, answeredMs, answer })
      else fault(`status ${answer.status}`)
    })
  }
  const calls = schedule(order)
  await sendAll(calls, send)
  const giveUpMs = Date.now() + answersWithinMs
  while (latenciesMs.length < sent && Date.now() < giveUpMs) await sleep(10)
  if (latenciesMs.length < sent) fault('no answer')
  for (const pool of pools.values()) pool.end()
  const sorted = Float64Array.from(latenciesMs).sort()
  const late = Float64Array.from(lateMs).sort()
  return {
    minutes: tallies.minutes(),
    lateP99Ms: quantile(late, 0.99),
    p50Ms: quantile(sorted, 0.5),
    p99Ms: quantile(sorted, 0.99),
    faults: [...faults].map(([what, count]) => `${count} × ${what}`),
  }
}

/** Every minute of a client is cut into as many equal parts as it has requests; one is sent at a random moment of each. */
function schedule({ groups, path, startMs, leadMs, minutes }: PacedOrder): Call[] {
  const calls: Call[] = []
  for (const group of groups) {
    const stepMs = minuteMs / group.requestsPerMinute
    for (let client = 0; client < group.clients; client++) {
      const head = requestHead({ method: 'GET', path, key: keyOf(group.name, client) })
      const parts = Math.round((leadMs + minutes * minuteMs) / stepMs)
      for (let part = 0; part < parts; part++) {
        const dueMs = startMs - leadMs + (part + Math.random()) * stepMs
        // The lead swells from nothing: processes that have just started take a while to run fast.
        if ((dueMs - startMs + leadMs) / leadMs < Math.random()) continue
        calls.push({ dueMs, group, client, head })
      }
    }
  }
  return calls.sort((a, b) => a.dueMs - b.dueMs)
}

async function sendAll(calls: readonly Call[], send: (call: Call) => void): Promise<void> {
  let next = 0
  while (next < calls.length) {
    const nowMs = Date.now()
    for (let call = calls[next]; call && call.dueMs <= nowMs; call = calls[++next]) send(call)
    await sleep(1)
  }
}

interface Pool {
  /** Calls back with undefined if the connection broke. */
  send(head: string, done: (answer: Answer | undefined) => void): void
  end(): void
}

/** Connections to one gateway; another is opened when all are busy. */
function createPool(port: number, fault: (what: string) => void): Pool {
  const free: Connection[] = []
  const done = new Map<Connection, (answer: Answer | undefined) => void>()
  let ended = false
  const open = (
    onReady: (connection: Connection) => void,
    onFailed: () => void = () => undefined,
  ): void => {
    let isReady = false
    const connection = openConnection(port, {
      onReady: (opened) => {
        isReady = true
        onReady(opened)
      },
      onAnswer: (answer, from) => {
        free.push(from)
        done.get(from)?.(answer)
      },
      onEnd: ({ cause, waiting }) => {
        if (ended) return
        fault(waiting ? `a request lost: ${cause}` : `a connection closed: ${cause}`)
        const at = free.indexOf(connection)
        if (at >= 0) free.splice(at, 1)
        if (waiting) done.get(connection)?.(undefined)
        else if (!isReady) onFailed()
      },
    })
  }
  return {
    send: (head, onDone) => {
      const sendOn = (connection: Connection): void => {
        done.set(connection, onDone)
        connection.send(head)
      }
      const connection = free.pop()
      if (connection) sendOn(connection)
      else open(sendOn, () => onDone(undefined))
    },
    end: () => {
      ended = true
      for (const connection of free) connection.destroy()
    },
  }
}

interface Note {
  readonly group: PacedGroup
  readonly client: number
  readonly sentMs: number
  readonly answeredMs: number
  readonly answer: Answer
}

function createTallies({ groups, startMs, minutes }: PacedOrder) {
  type Tally = { -readonly [Name in keyof PacedMinute]: PacedMinute[Name] }
  const tallies = new Map<string, Tally>()
  for (const { name: group, clients } of groups)
    for (let client = 0; client < clients; client++)
      for (let minute = 0; minute < minutes; minute++)
        tallies.set(`${group}-${client} ${minute}`, {
          group,
          client,
          minute,
          offered: 0,
          admitted: 0,
          refused: 0,
          surelyAdmitted: 0,
        })
  const minuteAt = (timeMs: number): number => Math.floor((timeMs - startMs) / minuteMs)
  return {
    note: ({ group, client, sentMs, answeredMs, answer }: Note): void => {
      const resetMs = Number(field(answer.head, 'x-ratelimit-reset')) * 1000
      const charged = tallies.get(`${group.name}-${client} ${minuteAt(resetMs - 1)}`)
      if (charged) {
        charged.offered += 1
        if (answer.status === 200) charged.admitted += 1
        else charged.refused += 1
      }
      const sent = tallies.get(`${group.name}-${client} ${minuteAt(sentMs)}`)
      if (sent && answer.status === 200 && minuteAt(answeredMs) === sent.minute)
        sent.surelyAdmitted += 1
    },
    minutes: (): PacedMinute[] => [...tallies.values()],
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
