/**
 * Calls of a worker to the supervisor on the same machine, over the IPC channel between them. What is asked during one turn
 * of the event loop travels as one message, and only one message is under way at a time: what comes meanwhile waits for the
 * answer and goes with the next. So a slow supervisor gets fewer, larger messages, and never more than it has answered.
 */
import { StoreUnavailable } from '../rules/store-unavailable.ts'

/** What can be asked, by name: functions of one argument. Plain data only, as it is cloned on the way. */
type Argument<Calls, Name extends keyof Calls> = Calls[Name] extends (argument: infer A) => unknown
  ? A
  : never
type Result<Calls, Name extends keyof Calls> = Calls[Name] extends (argument: never) => infer R
  ? R
  : never

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

export interface IpcCalls<Calls> {
  /** false: calls fail at once, as the supervisor is silent or gone. */
  readonly available: boolean
  /** Rejects with StoreUnavailable when the supervisor does not answer within `timeoutMs` or cannot do it. */
  call<Name extends keyof Calls & string>(
    name: Name,
    argument: Argument<Calls, Name>,
  ): Promise<Result<Calls, Name>>
  /** Called each time the supervisor answers again after a silence. */
  onRecovered(listener: () => void): void
  /** Passes over the answers of another lane. */
  receive(answers: AnswerBatch): void
  /** The channel is gone for good: all calls fail. */
  close(): void
}

interface Pending {
  readonly name: string
  readonly argument: unknown
  readonly askedMs: number
  resolve(value: unknown): void
  reject(fault: unknown): void
}

/** One message keeps the supervisor busy for a few ms at most. */
const BATCH_CALLS = 1_000
/** A worker that is faster than its supervisor fails fast beyond this. */
const QUEUED_CALLS = 20_000

/** timeoutMs: bound of every call. lane: apart from others on the same channel. onState: told when the supervisor falls silent (false) and when it answers again (true). */
export function createIpcCalls<Calls>({
  send,
  timeoutMs,
  lane,
  onState,
}: {
  send(batch: CallBatch): void
  timeoutMs: number
  lane: string
  onState?: (available: boolean) => void
}): IpcCalls<Calls> {
  const recovered: (() => void)[] = []
  let queue: Pending[] = []
  let underway: { readonly id: number; readonly calls: readonly Pending[] } | undefined
  let lastId = 0
  let isScheduled = false
  let isSilent = false
  let isClosed = false
  let timer: NodeJS.Timeout | undefined

  const flush = (): void => {
    isScheduled = false
    const [first] = queue
    if (underway !== undefined || first === undefined) return
    const calls = queue.slice(0, BATCH_CALLS)
    queue = queue.slice(BATCH_CALLS)
    const batch = { id: ++lastId, calls }
    underway = batch
    const leftMs = first.askedMs + timeoutMs - performance.now()
    // After a stall of the event loop timers run before messages are read: give an answer that is already there its turn.
    timer = setTimeout(() => setImmediate(fallSilent, batch), Math.max(1, leftMs))
    send({
      kind: 'calls',
      lane,
      id: batch.id,
      calls: calls.map(({ name, argument }) => ({ name, argument })),
    })
  }

  const rejectAll = (reason: 'timeout' | 'error'): void => {
    const fault = new StoreUnavailable(reason)
    const calls = [...(underway?.calls ?? []), ...queue]
    queue = []
    for (const { reject } of calls) reject(fault)
  }

  const fallSilent = (batch: typeof underway): void => {
    if (underway !== batch || isClosed) return
    // The message stays under way: its answer, however late, tells that the supervisor is back.
    isSilent = true
    rejectAll('timeout')
    onState?.(false)
  }

  return {
    get available() {
      return !isSilent && !isClosed
    },
    call: (name, argument) =>
      new Promise((resolve, reject) => {
        if (isSilent || isClosed || queue.length >= QUEUED_CALLS)
          return reject(new StoreUnavailable('error'))
        const settle = resolve as (value: unknown) => void
        queue.push({ name, argument, askedMs: performance.now(), resolve: settle, reject })
        if (underway !== undefined || isScheduled) return
        isScheduled = true
        setImmediate(flush)
      }),
    onRecovered: (listener) => void recovered.push(listener),
    receive: ({ lane: answered, id, outcomes }) => {
      if (answered !== lane || underway?.id !== id) return
      clearTimeout(timer)
      const { calls } = underway
      underway = undefined
      for (const [at, { resolve, reject }] of calls.entries()) {
        const outcome = outcomes[at]
        if (outcome?.ok) resolve(outcome.value)
        else reject(new StoreUnavailable('error', outcome?.fault))
      }
      if (isSilent) {
        isSilent = false
        onState?.(true)
        for (const listener of recovered) listener()
      }
      flush()
    },
    close: () => {
      isClosed = true
      clearTimeout(timer)
      rejectAll('error')
      underway = undefined
    },
  }
}

/** How the supervisor answers each call. */
export type CallHandlers<Calls> = {
  readonly [Name in keyof Calls]: (
    argument: Argument<Calls, Name>,
  ) => Result<Calls, Name> | Promise<Result<Calls, Name>>
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
