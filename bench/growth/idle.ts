/** Holds keep-alive connections open in a process of its own: each has one request answered whenever it is told to. */
import { keyOf } from './clients.ts'
import { openConnection, requestHead, type Connection } from './wire.ts'

export interface IdleOrder {
  readonly port: number
  readonly group: string
  readonly clients: number
  readonly path: string
  /** Opens connections until there are so many; then every open one sends one request. */
  readonly connections: number
}

export interface IdleOutcome {
  readonly open: number
  /** Connections whose request was answered with 200. */
  readonly served: number
  readonly faults: readonly string[]
}

/** New connections under way at once: fewer than the listener's backlog. */
const opening = 200

const connections = new Set<Connection>()
const faults = new Map<string, number>()
let onDone: (status: number) => void = () => undefined

process.on('message', (order: IdleOrder) => {
  void hold(order).then((outcome) => process.send?.(outcome))
})
process.once('disconnect', () => process.exit(0))

async function hold(order: IdleOrder): Promise<IdleOutcome> {
  faults.clear()
  while (connections.size < order.connections && faults.size === 0)
    await openSome(order.port, Math.min(opening, order.connections - connections.size))
  const served = faults.size === 0 ? await askAll(order) : 0
  return {
    open: connections.size,
    served,
    faults: [...faults].map(([what, count]) => `${count} × ${what}`),
  }
}

function openSome(port: number, count: number): Promise<void> {
  return new Promise((resolve) => {
    let left = count
    const settled = (): void => {
      left -= 1
      if (left === 0) resolve()
    }
    for (let nth = 0; nth < count; nth++) {
      let ready = false
      const connection = openConnection(port, {
        onReady: (opened) => {
          ready = true
          connections.add(opened)
          settled()
        },
        onAnswer: ({ status }) => onDone(status),
        onEnd: ({ cause, waiting }) => {
          connections.delete(connection)
          note(`a connection ended: ${cause}`)
          if (!ready) settled()
          if (waiting) onDone(0)
        },
      })
    }
  })
}

/** One request on every connection, some hundreds at a time. */
function askAll({ group, clients, path }: IdleOrder): Promise<number> {
  return new Promise((resolve) => {
    const waiting = [...connections]
    let [due, served, asked] = [waiting.length, 0, 0]
    const askNext = (): void => {
      const key = keyOf(group, asked++ % clients)
      waiting.pop()?.send(requestHead({ method: 'GET', path, key }))
    }
    onDone = (status) => {
      due -= 1
      if (status === 200) served += 1
      else if (status !== 0) note(`status ${status}`)
      if (due === 0) resolve(served)
      else askNext()
    }
    if (due === 0) resolve(0)
    for (let nth = 0; nth < opening; nth++) askNext()
  })
}

function note(what: string): void {
  faults.set(what, (faults.get(what) ?? 0) + 1)
}
