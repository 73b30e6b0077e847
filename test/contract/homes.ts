/** The homes of state, each opened as a gateway opens it, for the suites that run over all of them. */
import { join } from 'node:path'
import type { OwnState, State } from '../../src/state/contract.ts'
import { openMemoryState } from '../../src/state/memory/home.ts'
import type { NoticeListener } from '../../src/state/quota.ts'
import { openRedisState } from '../../src/state/redis/home.ts'
import { openSqliteFile } from '../../src/state/sqlite/file.ts'
import { openSqliteState } from '../../src/state/sqlite/home.ts'
import { answerCalls, IpcCalls, type CallHandlers } from '../../src/state/calls.ts'
import { openSupervisorState, type SharedCalls } from '../../src/state/supervisor/home.ts'
import { createAddressCounter } from '../../src/state/memory/addresses.ts'
import { createSharedState } from '../../src/server/workers/shared-state.ts'
import { temporaryFolder } from '../support/processes.ts'
import { sharedRedis } from '../support/redis-server.ts'
import { redisAt } from '../support/redis-servers.ts'
import { readBlocks } from '../support/serving.ts'

/** One place where state is kept. Opened again it is what another process finds there, or the next one. */
export interface Place<Opened extends State> {
  open(): Promise<Opened>
}

export interface Home<Opened extends State = OwnState> {
  readonly name: string
  /** What is kept outlasts the process. */
  readonly isLasting: boolean
  /** Several gateways may use one place at a time. */
  readonly isShared: boolean
  /** An empty place of its own. */
  place(): Place<Opened>
}

const unexpected = (fault: unknown): void => {
  throw new Error(`unexpected: ${JSON.stringify(fault)}`, { cause: fault })
}

const open = new Set<State>()

async function opened<Opened extends State>(state: Opened): Promise<Opened> {
  open.add(state)
  await state.ready()
  return state
}

/** Closes all that is open. */
export async function closeAll(): Promise<void> {
  const states = [...open]
  open.clear()
  await Promise.all(states.map((state) => state.close()))
}

const memory: Home = {
  name: 'memory',
  isLasting: false,
  isShared: false,
  place: () => ({ open: () => opened(openMemoryState(unexpected)) }),
}

const file: Home = {
  name: 'store.file',
  isLasting: true,
  isShared: false,
  place: () => {
    const path = join(temporaryFolder(), 'store.db')
    // A disk that is late for a while, as on a busy machine, changes no answer.
    const onFault = (): void => undefined
    const options = { timeoutMs: 1_000, onFault }
    return { open: () => opened(openSqliteState(openSqliteFile(path, unexpected), options)) }
  },
}

const redis: Home = {
  name: 'Redis',
  isLasting: true,
  isShared: true,
  place: () => {
    const { url, prefix } = sharedRedis()
    return { open: () => opened(openRedisState(redisAt(url, { timeoutMs: 5_000 }), prefix)) }
  },
}

/** The supervisor has its state in memory; what passes between it and a worker is cloned, as on the channel. */
const supervisor: Home<State> = {
  name: 'the supervisor',
  isLasting: false,
  isShared: true,
  place: () => {
    const { embedded, bans, clock } = openMemoryState(unexpected)
    const config = readBlocks(['http://127.0.0.1:1'], {})
    const shared = createSharedState({
      addresses: createAddressCounter(),
      config,
      stores: { embedded, bans, clock },
      onBan: () => undefined,
    })
    const listeners: NoticeListener[] = []
    const handlers = shared.handlers(({ client, notice, totals }) => {
      for (const listener of listeners) listener(client, notice, undefined, totals)
    })
    const onNotice = (listener: NoticeListener): void => void listeners.push(listener)
    return { open: () => opened(openSupervisorState({ calls: loop(handlers), onNotice })) }
  },
}

/** Calls that are answered by these handlers. */
export function loop(handlers: Partial<CallHandlers<SharedCalls>>) {
  const calls = new IpcCalls<SharedCalls>({
    timeoutMs: 5_000,
    send: (batch) =>
      void setImmediate(() =>
        answerCalls(handlers as CallHandlers<SharedCalls>, structuredClone(batch), (answers) =>
          setImmediate(() => calls.receive(structuredClone(answers))),
        ),
      ),
  })
  return calls
}

/** Homes of a process that has no supervisor to ask. */
export const ownHomes: readonly Home[] = [memory, file, redis]
export const homes: readonly Home<State>[] = [...ownHomes, supervisor]
