/**
 * Takes a turn among the client's requests: none has more of them under way in this process than its plan's `concurrent`, so none
 * holds everything. Those beyond wait in a line of the client's own.
 */
import { RecencyTable } from '../../state/memory/recency-table.ts'
import { afterTurn } from '../../state/timers.ts'
import type { Caller } from '../rules/credentials.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import { whenKnown } from '../rules/when-known.ts'
import type { Exchange, Policy } from './exchange.ts'

/** This is long enough for a burst to pass, short enough not to look like an answer that hangs. */
export const LONGEST_WAIT_MS = 250
/** A line takes as many requests as may be under way, and at least as many as a client may send on one connection without waiting. */
const SHORTEST_LINE = 32
const CLIENTS_KEPT = 1_000

export class ClientTurns {
  /** Number of requests under way. Written here only. */
  taken = 0
  /** Requests that wait, the first to come first. */
  readonly #line: { readonly limit: number; decide(isTaken: boolean): void }[] = []

  /** Returns a promise when the request has to wait, and false at once when the line is full. */
  take(limit: number): boolean | Promise<boolean> {
    if (this.taken < limit && this.#line.length === 0) {
      this.taken++
      return true
    }
    if (this.#line.length >= Math.max(limit, SHORTEST_LINE)) return false
    return new Promise((resolve) => {
      // All wait equally long, so that whoever still waits is the first in line.
      const timer = afterTurn(LONGEST_WAIT_MS, () => {
        if (this.#line[0] === waiting) this.#line.shift()?.decide(false)
      })
      const decide = (isTaken: boolean): void => {
        clearTimeout(timer)
        resolve(isTaken)
      }
      const waiting = { limit, decide }
      this.#line.push(waiting)
    })
  }

  /** Called once for each turn taken. */
  giveBack(): void {
    this.taken--
    const next = this.#line[0]
    if (next === undefined || this.taken >= next.limit) return
    this.#line.shift()
    this.taken++
    next.decide(true)
  }
}

export class TurnsOfClients {
  readonly #clients = new RecencyTable<ClientTurns>({
    maxEntries: CLIENTS_KEPT,
    mayDrop: ({ taken }) => taken === 0,
  })

  of(clientId: string): ClientTurns {
    return this.#clients.get(clientId) ?? this.#clients.add(clientId, new ClientTurns())
  }

  takenBy(clientId: string): number {
    return this.#clients.peek(clientId)?.taken ?? 0
  }
}

/** The turn ends with the exchange. A refusal here is no strike, as no 429 came before it. */
export function takeTurn(
  { turns }: Policy,
  exchange: Exchange,
  caller: Caller,
): Refusal | undefined | Promise<Refusal | undefined> {
  if (exchange.isOver) return undefined
  const client = turns.of(caller.clientId)
  const taken = client.take(caller.concurrent)
  if (taken instanceof Promise) exchange.wait()
  return whenKnown(taken, (isTaken) => {
    exchange.goOn()
    if (!isTaken) return tooMany(caller.concurrent)
    if (exchange.endedMs !== undefined) client.giveBack()
    else exchange.turn = client
    return undefined
  })
}

/** The refusals of each limit, which a flood is answered with. */
const refusals: Refusal[] = []

function tooMany(limit: number): Refusal {
  return (refusals[limit] ??= refuse('concurrency_limit_exceeded', {
    detail: `Limit: ${limit} at once. Retry in 1 s.`,
    retryAfterSeconds: 1,
    limited: { limit },
  }))
}
