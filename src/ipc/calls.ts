/**
 * Calls of a worker to the supervisor on the same machine, over the IPC channel between them. What is asked during one turn
 * of the event loop travels as one message, and only one message is under way at a time: what comes meanwhile waits for the
 * answer and goes with the next. So a slow supervisor gets fewer, larger messages, and never more than it has answered.
 */
import type { BanRecord } from '../rules/ban-policy.ts'
import type { TakeReply, TakeRequest } from '../quota/protocol.ts'
import { StoreUnavailable } from '../redis/store.ts'

/** What can be asked; plain data only, as it is cloned on the way. */
export interface SharedCalls {
  /** Asks the embedded quota authority. */
  take(request: TakeRequest): TakeReply
  /** Adds strikes to a key of all workers; answers the total, which begins anew once it has reached `bans.strikes`. */
  addStrikes(strikes: { readonly keyId: string; readonly points: number }): number
  /** Adds requests without a valid credential to an address; 0 looks. */
  countAddress(count: AddressCount): CountedAddress
  loadBans(): ReadonlyMap<string, BanRecord>
  saveBan(kept: { readonly keyId: string; readonly ban: BanRecord }): void
  forgetBan(kept: { readonly keyId: string; readonly ban: BanRecord }): void
}

export interface AddressCount {
  readonly address: string
  readonly points: number
}

export interface CountedAddress {
  /** Minute of Unix time that was counted in. */
  readonly minute: number
  readonly total: number
}

type CallName = keyof SharedCalls
type Argument<Name extends CallName> = Parameters<SharedCalls[Name]>[0]
type Result<Name extends CallName> = ReturnType<SharedCalls[Name]>

export interface CallBatch {
  readonly kind: 'calls'
  readonly id: number
  readonly calls: readonly { readonly name: CallName; readonly argument: unknown }[]
}

export interface AnswerBatch {
  readonly kind: 'answers'
  readonly id: number
  /** In the order of the calls. */
  readonly outcomes: readonly (
    { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly fault: string }
  )[]
}

export interface IpcCalls {
  /** false: calls fail at once, as the supervisor is silent or gone. */
  readonly available: boolean
  /** Rejects with StoreUnavailable when the supervisor does not answer within `timeoutMs` or cannot do it. */
  call<Name extends CallName>(name: Name, argument: Argument<Name>): Promise<Result<Name>>
  /** Called each time the supervisor answers again after a silence. */
  onRecovered(listener: () => void): void
  receive(answers: AnswerBatch): void
  /** The channel is gone for good: all calls fail. */
  close(): void
}

interface Pending {
  readonly name: CallName
  readonly argument: unknown
  readonly askedMs: number
  resolve(value: unknown): void
  reject(fault: unknown): void
}

/** One message keeps the supervisor busy for a few ms at most. */
const BATCH_CALLS = 1_000
/** A worker that is faster than its supervisor fails fast beyond this. */
const QUEUED_CALLS = 20_000

/** timeoutMs: bound of every call. firstId: apart from those of others on the same channel. onState: told when the supervisor falls silent (false) and when it answers again (true). */
export function createIpcCalls({
  send,
  timeoutMs,
  firstId = 1,
  onState,
}: {
  send(batch: CallBatch): void
  timeoutMs: number
  firstId?: number
  onState?: (available: boolean) => void
}): IpcCalls {
  const recovered: (() => void)[] = []
  let queue: Pending[] = []
  let underway: { readonly id: number; readonly calls: readonly Pending[] } | undefined
  let lastId = firstId - 1
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
        queue.push({ name, argument, askedMs: performance.now(), resolve, reject })
        if (underway !== undefined || isScheduled) return
        isScheduled = true
        setImmediate(flush)
      }),
    onRecovered: (listener) => void recovered.push(listener),
    receive: ({ id, outcomes }) => {
      if (underway?.id !== id) return
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
export type CallHandlers = {
  readonly [Name in CallName]: (argument: Argument<Name>) => Result<Name> | Promise<Result<Name>>
}

/** Never rejects: a handler that throws becomes a fault of that call alone. */
export async function answerCalls(
  handlers: CallHandlers,
  { id, calls }: CallBatch,
): Promise<AnswerBatch> {
  const outcomes = await Promise.all(
    calls.map(async ({ name, argument }): Promise<AnswerBatch['outcomes'][number]> => {
      try {
        // The argument was typed where the call was made; both ends are of one version.
        const handle = handlers[name] as (argument: unknown) => unknown
        return { ok: true, value: await handle(argument) }
      } catch (error) {
        return { ok: false, fault: error instanceof Error ? error.message : String(error) }
      }
    }),
  )
  return { kind: 'answers', id, outcomes }
}
