/** One call to the authority for one client: what is stated and asked for, and how the answer is taken into the lease. */
import type { Limits } from '../../config/config.ts'
import type { Client } from '../client.ts'
import { leaseSize, measurePace, prefetchLevel } from './lease-size.ts'
import { applyReply, inHand, rememberRefusal, statement } from './lease.ts'
import type { Authority, Hold, TakeReply } from '../protocol.ts'

export interface Order {
  /** Requests that wait. */
  readonly need: number
  /** More may be asked for. */
  readonly ahead: boolean
  /** Of the very requests that wait, since a token may name another plan than the one before. */
  readonly limits: Limits
}

export interface Asked {
  readonly answer: TakeReply | Promise<TakeReply>
  readonly need: number
  readonly limits: Limits
  readonly minute: Hold
  readonly day: Hold
  readonly sentMs: number
}

/** What an answer is good for. tokens: waiting requests it serves. undefined: for nothing but asking again. */
export interface Outcome {
  readonly tokens: number
  /** The rest is refused for as long as nobody gives tokens back, and the others have just been asked for theirs. */
  readonly reclaimed: boolean
  /** The minute or the day of the tokens may have ended on the way: they are not spent. */
  readonly late: boolean
}

export interface AskingOptions {
  readonly authority: Authority
  readonly clock: { nowMs(): number; epochMs(): number }
  /** auto: tokens are asked for ahead of need from an authority that is not in this process. */
  readonly lease: 'auto' | 'off'
  /** Processes known to share each client, at least. */
  readonly leastProcesses: number
  /** The authority was told all about the client. */
  onCertain(client: Client): void
  /** The authority has lost its data: it may not know what any client used. */
  onLoss(): void
}

export interface Asking {
  /** The authority answers at once, without a promise. */
  readonly isImmediate: boolean
  /** undefined: the authority is away. */
  ask(client: Client, order: Order): Asked | undefined
  absorb(client: Client, asked: Asked, reply: TakeReply): Outcome | undefined
  /** The authority's Unix time as far as it is known: as it last told, else this machine's. */
  storeNowMs(): number
}

/** A notice that this process has caused itself is heard within this. */
const ECHO_MS = 1_000
/** How much of the newest call's duration goes into the mean. */
const CALL_WEIGHT = 0.1

export function createAsking(options: AskingOptions): Asking {
  const { authority, clock, lease: mode } = options
  // Numbers rise over all clients, so a client that was forgotten never repeats one.
  let sequence = 0
  let isImmediate = false
  let storeAheadMs: number | undefined
  let callMs = 1

  const wanted = ({ lease }: Client, { need, limits }: Order, nowMs: number): number => {
    measurePace(lease.pace, nowMs)
    // Of a minute that has ended the next one is about to begin.
    const leftMs = lease.minute.endsByMs - nowMs
    const minuteLeftMs = leftMs > 0 ? leftMs : lease.minute.lengthMs
    return leaseSize(lease.pace, { limits, need, minuteLeftMs })
  }

  return {
    get isImmediate() {
      return isImmediate
    },

    ask: (client, order) => {
      const { lease } = client
      const { need, ahead, limits } = order
      const sentMs = clock.nowMs()
      // Tokens of a minute that may end at any moment cannot be spent any more: they go back, so that they do not look like a limit used up.
      if (sentMs >= lease.minute.spendUntilMs && lease.minute.held > lease.minute.used) {
        if (lease.minute.taken !== undefined)
          lease.minute.taken -= lease.minute.held - lease.minute.used
        lease.minute.held = lease.minute.used
      }
      const minute = statement(lease.minute)
      const day = statement(lease.day)
      try {
        const answer = authority.take({
          client: lease.client,
          process: lease.holder,
          sequence: ++sequence,
          limits,
          minute,
          day,
          need,
          want: ahead && mode === 'auto' && !isImmediate ? wanted(client, order, sentMs) : need,
        })
        isImmediate = !(answer instanceof Promise)
        return { answer, need, limits, minute, day, sentMs }
      } catch {
        return undefined
      }
    },

    absorb: (client, { need, limits, minute, day, sentMs }, reply) => {
      const { lease } = client
      const receivedMs = clock.nowMs()
      if (reply.status === 'stale') return undefined
      const { activeProcesses } = lease
      lease.limits = limits
      applyReply(lease, reply, { sentMs, receivedMs })
      lease.activeProcesses = Math.max(reply.activeProcesses, options.leastProcesses)
      storeAheadMs = reply.nowMs - receivedMs
      if (reply.reclaim && reply.status !== 'short') client.echoUntilMs = receivedMs + ECHO_MS
      if (reply.status === 'lost') {
        client.lostInARow += 1
        // An authority without data knows of nobody but the caller.
        lease.activeProcesses = activeProcesses
        options.onLoss()
        return undefined
      }
      client.lostInARow = 0
      callMs += CALL_WEIGHT * (receivedMs - sentMs - callMs)
      const stated = minute.index === reply.minute.index ? minute.held : 0
      const granted = reply.minute.held - stated
      const tokens = Math.min(need, granted)
      lease.dayUsedKnown = (day.index === reply.day.index ? day.used : 0) + tokens
      // Nothing came ahead: asking for more before it is needed would be a call for nothing.
      lease.prefetchAt = granted > need ? prefetchLevel(lease.pace, inHand(lease), callMs) : -1
      options.onCertain(client)
      const mayEndAtMs = sentMs + lease.minute.lengthMs * (reply.minute.index + 1) - reply.nowMs
      const late = !isImmediate && receivedMs >= mayEndAtMs
      if (reply.status === 'short' && !late) rememberRefusal(lease, reply, receivedMs)
      return {
        tokens,
        reclaimed: reply.status === 'short' && reply.reclaim,
        late,
      }
    },

    storeNowMs: () => (storeAheadMs === undefined ? clock.epochMs() : clock.nowMs() + storeAheadMs),
  }
}
