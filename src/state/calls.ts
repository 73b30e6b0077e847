/**
 * Calls to another process over the IPC channel, or to a thread. Those of one turn of the event loop travel as one message, and
 * only one message is unanswered at a time, so that a busy receiver gets fewer, larger ones. A call that cannot be decided yet
 * delays no other, and a late answer fails only calls whose own time ran out.
 */
import { Silence } from './silence.ts'
import { afterTurn } from './timers.ts'
import { StoreUnavailable } from './contract.ts'

/** Calls are functions of one argument, by name. They carry plain data only, as it is cloned on the way. */
type Argument<Call> = Call extends (argument: infer A) => unknown ? A : never
type Result<Call> = Call extends (argument: never) => infer R ? R : never

interface SentCall {
  readonly id: number
  readonly name: string
  readonly argument: unknown
}

export interface CallBatch {
  readonly kind: 'calls'
  readonly calls: readonly SentCall[]
}

export type CallOutcome = { readonly id: number } & (
  { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly fault: string }
)

export interface AnswerBatch {
  readonly kind: 'answers'
  /** The first answer to a batch comes at once, so that no call waits for another; missing outcomes follow as they become known. */
  readonly isFirst: boolean
  readonly outcomes: readonly CallOutcome[]
}

interface Pending extends Pick<PromiseWithResolvers<unknown>, 'resolve' | 'reject'> {
  readonly sent: SentCall
  readonly askedMs: number
  timer?: NodeJS.Timeout
}

/** Bounds a message, so that it keeps the receiver busy for a few ms at most. */
const BATCH_CALLS = 1_000
/** Limit of open calls; further ones fail at once, as the caller is faster than the receiver. */
const OPEN_CALLS = 20_000

interface IpcCallsOptions {
  send(batch: CallBatch): void
  /** Time that every call may take; one that is sent late may take up to a quarter more. */
  readonly timeoutMs: number
}

export class IpcCalls<Calls> {
  /** false: calls fail at once, as the receiver is away or gone. Written by #become and close. */
  available = true
  readonly #options: IpcCallsOptions
  readonly #listeners: ((available: boolean) => void)[] = []
  readonly #queue = new Set<Pending>()
  /** Calls sent, by id, until their outcomes are known, even where nobody waits for them any more: the receiver still has them. */
  readonly #open = new Map<number, Pending>()
  /** The calls of the message whose first answer is awaited. Written by #flush, receive and close. */
  #awaited: ReadonlySet<Pending> | undefined
  /** The awaited answer is late: a call that waited for it has timed out. Written by receive and #expire. */
  #isLate = false
  readonly #silence = new Silence()
  #lastId = 0

  constructor(options: IpcCallsOptions) {
    this.#options = options
  }

  /** Rejects with StoreUnavailable where the receiver is away or busy, is silent for `timeoutMs` or cannot carry out the call. */
  call<Name extends keyof Calls & string>(
    name: Name,
    argument: Argument<Calls[Name]>,
  ): Promise<Result<Calls[Name]>> {
    if (!this.available || this.#queue.size + this.#open.size >= OPEN_CALLS)
      return Promise.reject(new StoreUnavailable('error'))
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const sent = { id: ++this.#lastId, name, argument }
    const call: Pending = { sent, askedMs: performance.now(), resolve, reject }
    this.#bound(call, this.#options.timeoutMs)
    this.#queue.add(call)
    // This is the first call of the turn; later ones go with it.
    if (this.#queue.size === 1 && this.#awaited === undefined) setImmediate(() => this.#flush())
    return promise as Promise<Result<Calls[Name]>>
  }

  /** Calls the listener with false when the receiver is away, and with true when it answers again. */
  onState(listener: (available: boolean) => void): void {
    this.#listeners.push(listener)
  }

  receive({ isFirst, outcomes }: AnswerBatch): void {
    for (const outcome of outcomes) {
      const call = this.#open.get(outcome.id)
      this.#open.delete(outcome.id)
      clearTimeout(call?.timer)
      if (outcome.ok) call?.resolve(outcome.value)
      else call?.reject(new StoreUnavailable('error', outcome.fault))
    }
    if (!isFirst || this.#awaited === undefined) return
    this.#awaited = undefined
    if (!this.#isLate || !this.available) this.#silence.end()
    this.#isLate = false
    if (!this.available) this.#become(true)
    this.#flush()
  }

  /** The channel is gone for good: all calls fail. */
  close(): void {
    this.available = false
    this.#rejectAll('error')
    this.#open.clear()
    this.#awaited = undefined
  }

  #flush(): void {
    if (this.#awaited !== undefined || this.#queue.size === 0) return
    const { timeoutMs, send } = this.#options
    const calls = [...this.#queue].slice(0, BATCH_CALLS)
    const nowMs = performance.now()
    for (const call of calls) {
      this.#queue.delete(call)
      this.#open.set(call.sent.id, call)
      // A call that has waited for a late answer gets at least a quarter of the time for its own.
      if (call.askedMs + timeoutMs - nowMs < timeoutMs / 4) this.#bound(call, timeoutMs / 4)
    }
    this.#awaited = new Set(calls)
    send({ kind: 'calls', calls: calls.map(({ sent }) => sent) })
  }

  #bound(call: Pending, withinMs: number): void {
    clearTimeout(call.timer)
    call.timer = afterTurn(withinMs, () => this.#expire(call))
  }

  /** Fails a call whose time is up, and all calls once the silence has lasted so long that the receiver counts as away. */
  #expire(call: Pending): void {
    call.reject(new StoreUnavailable('timeout'))
    const isUnanswered = this.#queue.delete(call) || this.#awaited?.has(call)
    if (!isUnanswered || !this.available) return
    this.#isLate = true
    if (!this.#silence.goesOn(performance.now(), this.#options.timeoutMs)) return
    this.#become(false)
    this.#rejectAll('timeout')
  }

  #become(available: boolean): void {
    this.available = available
    for (const listener of this.#listeners) listener(available)
  }

  #rejectAll(reason: 'timeout' | 'error'): void {
    const fault = new StoreUnavailable(reason)
    for (const { timer, reject } of [...this.#open.values(), ...this.#queue]) {
      clearTimeout(timer)
      reject(fault)
    }
    this.#queue.clear()
  }
}

export type CallHandlers<Calls> = {
  readonly [Name in keyof Calls]: (
    argument: Argument<Calls[Name]>,
  ) => Result<Calls[Name]> | Promise<Result<Calls[Name]>>
}

/** Sends the outcomes known at once, and the others as they become known. A handler that throws fails its call alone. */
export function answerCalls<Calls>(
  handlers: CallHandlers<Calls>,
  { calls }: CallBatch,
  send: (answers: AnswerBatch) => void,
): void {
  let isFirst = true
  let outcomes: CallOutcome[] = []
  const sendKnown = (): void => {
    send({ kind: 'answers', isFirst, outcomes })
    isFirst = false
    outcomes = []
  }
  const known = (outcome: CallOutcome): void => {
    // Outcomes of the same turn of the event loop share a message; those known before the first message go with it.
    if (outcomes.push(outcome) === 1 && !isFirst) setImmediate(sendKnown)
  }
  for (const { id, name, argument } of calls) {
    const fault = (error: unknown): void =>
      known({ id, ok: false, fault: error instanceof Error ? error.message : String(error) })
    try {
      // The argument was typed where the call was made, and both ends are of one version.
      const handle = handlers[name as keyof Calls] as (argument: unknown) => unknown
      const value = handle(argument)
      if (value instanceof Promise)
        value.then((late) => known({ id, ok: true, value: late }), fault)
      else known({ id, ok: true, value })
    } catch (error) {
      fault(error)
    }
  }
  sendKnown()
}
