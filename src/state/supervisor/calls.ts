/**
 * Calls of one process to another on the same machine, over the IPC channel between them. Calls made during one turn of the
 * event loop travel as one message, and only one message of a lane is unanswered at a time: later calls wait and go with the
 * next. So a busy receiver gets fewer, larger messages. A call that it cannot decide yet delays no other. A late answer costs
 * the calls that waited for it as long as a call may wait, and no other.
 */
import { Silence } from '../silence.ts'
import { StoreUnavailable } from '../contract.ts'

/** Calls are functions of one argument, by name. They carry plain data only, as it is cloned on the way. */
type Argument<Call> = Call extends (argument: infer A) => unknown ? A : never
type Result<Call> = Call extends (argument: never) => infer R ? R : never

export interface CallBatch {
  readonly kind: 'calls'
  /** Separates callers that share a channel and must not wait for each other. */
  readonly lane: string
  readonly id: number
  readonly calls: readonly { readonly name: string; readonly argument: unknown }[]
}

export type CallOutcome =
  { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly fault: string }

/** The first answer to a batch comes at once, so that no call waits for another; missing outcomes follow as they become known. */
export interface AnswerBatch {
  readonly kind: 'answers'
  readonly lane: string
  readonly id: number
  /** Index in the batch of each outcome's call. */
  readonly places: readonly number[]
  readonly outcomes: readonly CallOutcome[]
}

interface Pending {
  readonly name: string
  readonly argument: unknown
  readonly askedMs: number
  resolve(value: unknown): void
  reject(fault: unknown): void
}

/** Bounds a message, so that it keeps the receiver busy for a few ms at most. */
const BATCH_CALLS = 1_000
/** With more calls open, further ones fail at once: the caller is faster than the receiver. */
const OPEN_CALLS = 20_000

interface SentBatch {
  readonly calls: readonly Pending[]
  readonly timer: NodeJS.Timeout
  /** Calls without an outcome. Written by receive. */
  open: number
}

export interface IpcCallsOptions {
  send(batch: CallBatch): void
  /** Bound of every call. */
  readonly timeoutMs: number
  /** The lane, which separates these calls from others on the same channel. */
  readonly lane: string
  /** Called with false when the receiver is away, and with true when it answers again. */
  onState?(available: boolean): void
}

export class IpcCalls<Calls> {
  /** false: calls fail at once, as the receiver is away or gone. Written by #expire, receive and close. */
  available = true
  readonly #options: IpcCallsOptions
  readonly #recovered: (() => void)[] = []
  /** Calls to be sent. Written by call, #flush and #rejectAll. */
  #queue: Pending[] = []
  /** Batches sent, by id, until all their outcomes are known. Written by #flush, receive and close. */
  readonly #sent = new Map<number, SentBatch>()
  /** Number of calls in these without an outcome. Written with them. */
  #open = 0
  /** Id of the batch whose first answer is awaited. Written by #flush, receive and close. */
  #awaited: number | undefined
  /**
   * The answer to the message under way is late. The message stays under way; calls queued behind it expire one by one. Written
   * by receive and #expire.
   */
  #isLate = false
  readonly #silence = new Silence()
  #lastId = 0

  constructor(options: IpcCallsOptions) {
    this.#options = options
  }

  /** Rejects with StoreUnavailable when the receiver does not answer within `timeoutMs` or cannot carry out the call. */
  call<Name extends keyof Calls & string>(
    name: Name,
    argument: Argument<Calls[Name]>,
  ): Promise<Result<Calls[Name]>> {
    return new Promise((resolve, reject) => {
      if (!this.available || this.#queue.length + this.#open >= OPEN_CALLS)
        return reject(new StoreUnavailable('error'))
      const settle = resolve as (value: unknown) => void
      this.#queue.push({ name, argument, askedMs: performance.now(), resolve: settle, reject })
      if (this.#queue.length > 1) return
      // This is the first call of the turn; later ones go with it.
      if (this.#awaited === undefined) setImmediate(() => this.#flush())
      else if (this.#isLate) this.#expireAfter(this.#options.timeoutMs)
    })
  }

  /** The listener is called each time the receiver answers again after it was away. */
  onRecovered(listener: () => void): void {
    this.#recovered.push(listener)
  }

  /** Ignores the answers of another lane. */
  receive({ lane, id, places, outcomes }: AnswerBatch): void {
    const batch = lane === this.#options.lane ? this.#sent.get(id) : undefined
    if (batch === undefined) return
    for (const [at, place] of places.entries()) {
      const outcome = outcomes[at]
      if (outcome?.ok) batch.calls[place]?.resolve(outcome.value)
      else batch.calls[place]?.reject(new StoreUnavailable('error', outcome?.fault))
    }
    batch.open -= places.length
    this.#open -= places.length
    if (batch.open === 0) {
      clearTimeout(batch.timer)
      this.#sent.delete(id)
    }
    if (id !== this.#awaited) return
    this.#awaited = undefined
    if (!this.#isLate || !this.available) this.#silence.end()
    this.#isLate = false
    if (!this.available) {
      this.available = true
      this.#options.onState?.(true)
      for (const listener of this.#recovered) listener()
    }
    this.#flush()
  }

  /** The channel is gone for good: all calls fail. */
  close(): void {
    this.available = false
    for (const { timer } of this.#sent.values()) clearTimeout(timer)
    this.#rejectAll('error')
    this.#sent.clear()
    this.#awaited = undefined
  }

  #flush(): void {
    const [first] = this.#queue
    if (this.#awaited !== undefined || first === undefined) return
    const { lane, timeoutMs, send } = this.#options
    const calls = this.#queue.slice(0, BATCH_CALLS)
    this.#queue = this.#queue.slice(BATCH_CALLS)
    const id = ++this.#lastId
    const leftMs = first.askedMs + timeoutMs - performance.now()
    // Calls that have waited for a late answer get a fair time of their own.
    const timer = afterTurn(Math.max(timeoutMs / 4, leftMs), () => this.#giveUp(id))
    this.#sent.set(id, { calls, timer, open: calls.length })
    this.#open += calls.length
    this.#awaited = id
    send({
      kind: 'calls',
      lane,
      id,
      calls: calls.map(({ name, argument }) => ({ name, argument })),
    })
  }

  #giveUp(id: number): void {
    rejectAll(this.#sent.get(id)?.calls, 'timeout')
    if (id !== this.#awaited) return
    this.#isLate = true
    this.#expire()
  }

  #expireAfter(delayMs: number): void {
    afterTurn(delayMs, () => {
      if (this.#isLate && this.available) this.#expire()
    }).unref()
  }

  /** The answer is still missing: calls that have waited long enough fail, and after a silence all calls. */
  #expire(): void {
    const nowMs = performance.now()
    const { timeoutMs } = this.#options
    if (this.#silence.goesOn(nowMs, timeoutMs)) {
      this.available = false
      this.#rejectAll('timeout')
      this.#options.onState?.(false)
      return
    }
    const askedBeforeMs = nowMs - timeoutMs
    const overdue = this.#queue.filter(({ askedMs }) => askedMs <= askedBeforeMs)
    this.#queue = this.#queue.slice(overdue.length)
    rejectAll(overdue, 'timeout')
    const [next] = this.#queue
    if (next !== undefined) this.#expireAfter(next.askedMs - askedBeforeMs)
  }

  #rejectAll(reason: 'timeout' | 'error'): void {
    for (const { calls } of this.#sent.values()) rejectAll(calls, reason)
    rejectAll(this.#queue, reason)
    this.#queue = []
  }
}

/** After a stall of the event loop timers run before messages are read, so an answer that has already arrived gets its turn first. */
const afterTurn = (delayMs: number, task: () => void): NodeJS.Timeout =>
  setTimeout(() => setImmediate(task), delayMs)

/** Calls that have an outcome keep it. */
function rejectAll(calls: readonly Pending[] = [], reason: 'timeout' | 'error'): void {
  const fault = new StoreUnavailable(reason)
  for (const { reject } of calls) reject(fault)
}

export const createIpcCalls = <Calls>(options: IpcCallsOptions): IpcCalls<Calls> =>
  new IpcCalls(options)

/** The receiver's handler for each call. */
export type CallHandlers<Calls> = {
  readonly [Name in keyof Calls]: (
    argument: Argument<Calls[Name]>,
  ) => Result<Calls[Name]> | Promise<Result<Calls[Name]>>
}

/** Sends the outcomes known at once, and the others as they become known. A handler that throws fails its call alone. */
export function answerCalls<Calls>(
  handlers: CallHandlers<Calls>,
  { lane, id, calls }: CallBatch,
  send: (answers: AnswerBatch) => void,
): void {
  let places: number[] = []
  let outcomes: CallOutcome[] = []
  const known = (place: number, outcome: CallOutcome): void => {
    outcomes.push(outcome)
    // Outcomes of the same turn of the event loop share a message; those known before the first message go with it.
    if (places.push(place) === 1 && isBegun) setImmediate(sendKnown)
  }
  const sendKnown = (): void => {
    send({ kind: 'answers', lane, id, places, outcomes })
    places = []
    outcomes = []
  }
  let isBegun = false
  for (const [place, { name, argument }] of calls.entries()) {
    const fault = (error: unknown): void =>
      known(place, { ok: false, fault: error instanceof Error ? error.message : String(error) })
    try {
      // The argument was typed where the call was made, and both ends are of one version.
      const handle = handlers[name as keyof Calls] as (argument: unknown) => unknown
      const value = handle(argument)
      if (value instanceof Promise)
        value.then((late) => known(place, { ok: true, value: late }), fault)
      else known(place, { ok: true, value })
    } catch (error) {
      fault(error)
    }
  }
  sendKnown()
  isBegun = true
}
