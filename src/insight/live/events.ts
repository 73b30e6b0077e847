/** Publishes server-sent events to readers and to subscribers in this process. A reader that is too slow is cut off. */
import { Readable } from 'node:stream'
import type { Ban, Changes, Tick } from '../api/live.ts'
import type { Decision } from '../../core/record/recent.ts'

interface EventTypes extends Changes {
  readonly tick: Tick
  readonly decision: Decision
  readonly ban: Ban
}

export type EventType = keyof EventTypes
export const eventTypes = ['tick', 'decision', 'ban', 'reload', 'backend', 'store'] as const

interface EventFilter {
  readonly types: ReadonlySet<EventType>
  /** Only decisions and bans of this client are sent; undefined: those of all. */
  readonly client: string | undefined
}

interface Reader extends EventFilter {
  /** Keeps the unread text. */
  readonly stream: Readable
}

/** Receives events in this process. The types it wants may change with time. */
interface EventSubscriber {
  wants(type: EventType): boolean
  receive(type: EventType, data: EventTypes[EventType]): void
}

const READERS = 32
/** Unread characters beyond which a reader is cut off. */
const WAITING_CHARS = 256 * 1024
const KEEP_ALIVE_MS = 10_000

export class Events {
  /** Written by who sends notices. */
  subscriber: EventSubscriber | undefined
  readonly #readers = new Set<Reader>()

  get isFull(): boolean {
    return this.#readers.size >= READERS
  }

  isWanted(type: EventType): boolean {
    const isRead = [...this.#readers].some(({ types }) => types.has(type))
    return isRead || this.subscriber?.wants(type) === true
  }

  publish<Type extends EventType>(type: Type, data: EventTypes[Type]): void {
    if (this.subscriber?.wants(type) === true) this.subscriber.receive(type, data)
    const readers = [...this.#readers].filter(({ types }) => types.has(type))
    if (readers.length === 0) return
    const text = `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`
    const of = 'client' in data ? data.client : undefined
    for (const reader of readers)
      if (reader.client === undefined || of === undefined || of === reader.client)
        this.#push(reader, text)
  }

  /** Ends the streams of all readers. */
  end(): void {
    for (const reader of this.#readers) this.#end(reader)
  }

  /** Ends when the reader is gone, or was too slow. */
  read(filter: EventFilter, gone: AbortSignal): Readable {
    const stream = new Readable({ read: () => undefined, encoding: 'utf8' })
    const reader = { ...filter, stream }
    const keepAlive = setInterval(() => this.#push(reader, ':\n\n'), KEEP_ALIVE_MS).unref()
    gone.addEventListener('abort', () => stream.destroy())
    stream.once('close', () => {
      clearInterval(keepAlive)
      this.#readers.delete(reader)
    })
    this.#readers.add(reader)
    this.#push(reader, 'retry: 1000\n\n')
    return stream
  }

  #push(reader: Reader, text: string): void {
    if (!this.#readers.has(reader)) return
    if (reader.stream.readableLength + text.length > WAITING_CHARS) this.#end(reader)
    else reader.stream.push(text)
  }

  #end(reader: Reader): void {
    this.#readers.delete(reader)
    reader.stream.push(null)
  }
}
