/** Where several lessees share one authority behind a network: in virtual time, on a real Redis, and over the channel of workers. */
import { setTimeout as sleep } from 'node:timers/promises'
import { MessageChannel } from 'node:worker_threads'
import {
  answerCalls,
  createIpcCalls,
  type AnswerBatch,
  type CallBatch,
} from '../../src/ipc/calls.ts'
import { createIpcAuthority, type QuotaCalls } from '../../src/quota/authorities/ipc.ts'
import type { Authority, NoticeListener } from '../../src/quota/protocol.ts'
import { createMemoryAuthority } from '../../src/quota/authorities/memory.ts'
import { systemTimers, type Timers } from '../../src/quota/timers.ts'
import { connectRedis } from '../../src/redis/redis.ts'
import {
  controlledMemoryAuthority,
  controlledRedisAuthority,
  START_MS,
  until,
} from '../support/controlled-authority.ts'
import { sharedRedis } from '../support/redis-server.ts'
import { serversAt } from '../support/redis-servers.ts'
import { createNetwork, createTimeline } from './lessee-harness.ts'

export interface World {
  readonly clock: { nowMs(): number; epochMs(): number }
  readonly timers: Timers
  authority(): Promise<Authority>
  pass(ms: number): Promise<void>
  close(): Promise<void>
}

export async function virtualWorld(): Promise<World> {
  const timeline = createTimeline()
  const network = createNetwork(controlledMemoryAuthority(timeline.time), timeline)
  network.delayMs = 2
  const { clock, timers, pass } = timeline
  return { clock, timers, pass, authority: async () => network, close: async () => undefined }
}

/** The store's clock begins 10 s into a minute, so that no test is cut by the end of one. */
function running() {
  const startedMs = performance.now()
  return {
    get ms() {
      return START_MS + Math.round(performance.now() - startedMs)
    },
  }
}

export async function redisWorld(): Promise<World> {
  const { url, prefix } = sharedRedis()
  const time = running()
  const stores: ReturnType<typeof connectRedis>[] = []
  return {
    clock: { nowMs: () => performance.now(), epochMs: () => time.ms },
    timers: systemTimers,
    pass: (ms) => sleep(ms),
    authority: async () => {
      const store = connectRedis({ servers: serversAt(url), timeoutMs: 5_000 })
      stores.push(store)
      await until(() => store.available)
      return controlledRedisAuthority(store, { time, prefix })
    },
    close: async () => {
      for (const store of stores) await store.close()
    },
  }
}

/** The authority of a supervisor, each process at a channel of its own. */
export async function ipcWorld(): Promise<World> {
  const time = running()
  const memory = createMemoryAuthority({ clock: { epochMs: () => time.ms } })
  const ends: (() => void)[] = []
  const everybody: NoticeListener[] = []
  return {
    clock: { nowMs: () => performance.now(), epochMs: () => time.ms },
    timers: systemTimers,
    pass: (ms) => sleep(ms),
    authority: async () => {
      const { port1, port2 } = new MessageChannel()
      const listeners: NoticeListener[] = []
      const calls = createIpcCalls<QuotaCalls>({
        lane: 'counts',
        send: (batch) => port1.postMessage(batch),
        timeoutMs: 5_000,
      })
      const notify: NoticeListener = (...notice) => port2.postMessage(notice)
      everybody.push(notify)
      port1.on('message', (message: AnswerBatch | Parameters<NoticeListener>) => {
        if (Array.isArray(message)) for (const listener of listeners) listener(...message)
        else calls.receive(message)
      })
      port2.on('message', (batch: CallBatch) =>
        answerCalls<QuotaCalls>(
          {
            take: (request) => {
              const reply = memory.take(request)
              if (reply.notice !== undefined)
                for (const other of everybody)
                  if (other !== notify) other(request.client, reply.notice, undefined, reply)
              return reply
            },
            beat: (beat) => memory.beat(beat),
          },
          batch,
          (answers) => port2.postMessage(answers),
        ),
      )
      ends.push(() => port1.close())
      return createIpcAuthority({ calls, onNotice: (listener) => void listeners.push(listener) })
    },
    close: async () => ends.forEach((end) => end()),
  }
}
