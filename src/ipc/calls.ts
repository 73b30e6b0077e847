/**
 * Calls of one process to another on the same machine, over the IPC channel between them. What is asked during one turn of
 * the event loop travels as one message, and only one message of a lane is under way at a time: what comes meanwhile waits
 * for the answer and goes with the next. So a slow other end gets fewer, larger messages, and never more than it has answered.
 */
import { StoreUnavailable } from '../rules/store-unavailable.ts'

/** What can be asked, by name, are functions of one argument. Plain data only, as it is cloned on the way. */
type Argument<Call> = Call extends (argument: infer A) => unknown ? A : never
type Result<Call> = Call extends (argument: never) => infer R ? R : never

export interface CallBatch {
  readonly kind: 'calls'
  /** Callers that share a channel and must not wait for each other. */
  readonly lane: string
  readonly id: number
  readonly calls: readonly { readonly name: string; readonly argument: unknown }[]
}

export interface AnswerBatch {
  readonly kind: 'answers'
  readonly lane: string
  readonly id: number
  /** In the order of the calls. */
  readonly outcomes: readonly (
    { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly fault: string }
  )[]
}

interface Pending {
  readonly name: string
  readonly argument: unknown
  readonly askedMs: number
  resolve(value: unknown): void
  reject(fault: unknown): void
}

/** One message keeps the other end busy for a few ms at most. */
const BATCH_CALLS = 1_000
/** A caller that is faster than the other end fails fast beyond this. */
const QUEUED_CALLS = 20_000

export interface IpcCallsOptions {
  send(batch: CallBatch): void
  /** Bound of every call. */
  readonly timeoutMs: number
  /** Apart from others on the same channel. */
  readonly lane: string
  /** The other end falls silent (false), or answers again (true). */
  onState?(available: boolean): void
}

export class IpcCalls<Calls> {
  /** false: calls fail at once, as the other end is silent or gone. Written by #fallSilent, receive and close. */
  available = true
  readonly #options: IpcCallsOptions
  readonly #recovered: (() => void)[] = []
  /** To be sent. Written by call, #flush and #rejectAll. */
  #queue: Pending[] = []
  /** Sent and not answered, with its timer. Written by #flush, receive and close. */
  #underway: { readonly id: number; readonly calls: readonly Pending[] } | undefined
  #timer: NodeJS.Timeout | undefined
  #lastId = 0

  constructor(options: IpcCallsOptions) {
    this.#options = options
  }

  /** Rejects with StoreUnavailable when the other end does not answer within `timeoutMs` or cannot do it. */
  call<Name extends keyof Calls & string>(
    name: Name,
    argument: Argument<Calls[Name]>,
  ): Promise<Result<Calls[Name]>> {
    return new Promise((resolve, reject) => {
      if (!this.available || this.#queue.length >= QUEUED_CALLS)
        return reject(new StoreUnavailable('error'))
      const settle = resolve as (value: unknown) => void
      this.#queue.push({ name, argument, askedMs: performance.now(), resolve: settle, reject })
      // The first of this turn; those after it go along.
      if (this.#queue.length === 1 && this.#underway === undefined)
        setImmediate(() => this.#flush())
    })
  }

  /** Called each time the other end answers again after a silence. */
  onRecovered(listener: () => void): void {
    this.#recovered.push(listener)
  }

  /** Passes over the answers of another lane. */
  receive({ lane, id, outcomes }: AnswerBatch): void {
    if (lane !== this.#options.lane || this.#underway?.id !== id) return
    clearTimeout(this.#timer)
    const { calls } = this.#underway
    this.#underway = undefined
    for (const [at, { resolve, reject }] of calls.entries()) {
      const outcome = outcomes[at]
      if (outcome?.ok) resolve(outcome.value)
      else reject(new StoreUnavailable('error', outcome?.fault))
    }
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
    clearTimeout(this.#timer)
    this.#rejectAll('error')
    this.#underway = undefined
  }

  #flush(): void {
    const [first] = this.#queue
    if (this.#underway !== undefined || first === undefined) return
    const { lane, timeoutMs, send } = this.#options
    const calls = this.#queue.slice(0, BATCH_CALLS)
    this.#queue = this.#queue.slice(BATCH_CALLS)
    const id = ++this.#lastId
    this.#underway = { id, calls }
    const leftMs = first.askedMs + timeoutMs - performance.now()
    // After a stall of the event loop timers run before messages are read: give an answer that is already there its turn.
    const late = (): void => void setImmediate(() => this.#fallSilent(id))
    this.#timer = setTimeout(late, Math.max(1, leftMs))
    send({
      kind: 'calls',
      lane,
      id,
      calls: calls.map(({ name, argument }) => ({ name, argument })),
    })
  }

  #fallSilent(id: number): void {
    if (this.#underway?.id !== id) return
    // The message stays under way: its answer, however late, tells that the other end is back.
    this.available = false
    this.#rejectAll('timeout')
    this.#options.onState?.(false)
  }

  #rejectAll(reason: 'timeout' | 'error'): void {
    const fault = new StoreUnavailable(reason)
    const calls = [...(this.#underway?.calls ?? []), ...this.#queue]
    this.#queue = []
    for (const { reject } of calls) reject(fault)
  }
}

export const createIpcCalls = <Calls>(options: IpcCallsOptions): IpcCalls<Calls> =>
  new IpcCalls(options)

/** How the other end answers each call. */
export type CallHandlers<Calls> = {
  readonly [Name in keyof Calls]: (
    argument: Argument<Calls[Name]>,
  ) => Result<Calls[Name]> | Promise<Result<Calls[Name]>>
}

/** Never rejects: a handler that throws becomes a fault of that call alone. */
export async function answerCalls<Calls>(
  handlers: CallHandlers<Calls>,
  { lane, id, calls }: CallBatch,
): Promise<AnswerBatch> {
  const outcomes = await Promise.all(
    calls.map(async ({ name, argument }): Promise<AnswerBatch['outcomes'][number]> => {
      try {
        // The argument was typed where the call was made; both ends are of one version.
        const handle = handlers[name as keyof Calls] as (argument: unknown) => unknown
        return { ok: true, value: await handle(argument) }
      } catch (error) {
        return { ok: false, fault: error instanceof Error ? error.message : String(error) }
      }
    }),
  )
  return { kind: 'answers', lane, id, outcomes }
}
