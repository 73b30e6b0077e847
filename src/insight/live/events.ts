/** What is told to those who listen, as server-sent events. Nobody is waited for: who reads too slowly is let go. */
import type { Changes, Tick } from '../api/live.ts'
import type { Decision } from '../../core/record/recent.ts'
import type { Ban } from '../api/state.ts'

export interface EventTypes extends Changes {
  readonly tick: Tick
  readonly decision: Decision
  readonly ban: Ban
}

export type EventType = keyof EventTypes
export const eventTypes = ['tick', 'decision', 'ban', 'reload', 'backend', 'store'] as const

export interface EventFilter {
  readonly types: ReadonlySet<EventType>
  /** Of which decisions and bans are told; undefined: all. */
  readonly client: string | undefined
}

interface Reader extends EventFilter {
  /** Not taken yet. Written by #push and read, as are the next. */
  waiting: string
  isCut: boolean
  wake: () => void
}

/** What it wants may change with time. */
export interface Hearer {
  wants(type: EventType): boolean
  told(type: EventType, data: EventTypes[EventType]): void
}

const READERS = 32
/** That wait for one reader. */
const WAITING_CHARS = 256 * 1024
const KEEP_ALIVE_MS = 10_000
const DECISIONS_A_SECOND = 50

export class Events {
  /** Of this second. Written by decision and second. */
  #decisions = 0
  #untold = 0
  readonly #readers = new Set<Reader>()
  readonly #hearers: Hearer[] = []
  readonly #wanted: ((isWanted: boolean) => void)[] = []

  get isFull(): boolean {
    return this.#readers.size >= READERS
  }

  /** Somebody listens to these. */
  isWanted(type: EventType): boolean {
    return (
      [...this.#readers].some(({ types }) => types.has(type)) ||
      this.#hearers.some(({ wants }) => wants(type))
    )
  }

  /** In this process, from here on. */
  hear(hearer: Hearer): void {
    this.#hearers.push(hearer)
  }

  /** Told when they are wanted, and when no more. */
  onDecisionsWanted(listener: (isWanted: boolean) => void): void {
    this.#wanted.push(listener)
  }

  tell<Type extends EventType>(type: Type, data: EventTypes[Type]): void {
    for (const { wants, told } of this.#hearers) if (wants(type)) told(type, data)
    if (this.#readers.size === 0) return
    const text = `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`
    const of = 'client' in data ? data.client : undefined
    for (const reader of this.#readers) {
      const { types, client } = reader
      if (types.has(type) && (client === undefined || of === undefined || of === client))
        push(reader, text)
    }
  }

  /** untold: others that were too many. */
  readonly decisions = (all: readonly Decision[], untold: number): void => {
    this.#untold += untold
    for (const decision of all)
      if (this.#decisions++ < DECISIONS_A_SECOND) this.tell('decision', decision)
      else this.#untold++
  }

  /** A second is over; how many decisions of it were not told. */
  second(): number {
    const untold = this.#untold
    this.#decisions = this.#untold = 0
    return untold
  }

  /** For all readers: the gateway ends. */
  end(): void {
    for (const reader of this.#readers) {
      reader.isCut = true
      reader.wake()
    }
  }

  /** Ends when the reader is gone, or was too slow. */
  async *read(filter: EventFilter, gone: AbortSignal): AsyncGenerator<string> {
    const reader: Reader = {
      ...filter,
      waiting: 'retry: 1000\n\n',
      isCut: false,
      wake: () => undefined,
    }
    const keepAlive = setInterval(() => push(reader, ':\n\n'), KEEP_ALIVE_MS).unref()
    gone.addEventListener('abort', () => reader.wake())
    this.#change(() => this.#readers.add(reader))
    try {
      while (!gone.aborted && !reader.isCut) {
        const text = reader.waiting
        reader.waiting = ''
        if (text !== '') yield text
        else await new Promise<void>((resolve) => (reader.wake = resolve))
      }
    } finally {
      clearInterval(keepAlive)
      this.#change(() => this.#readers.delete(reader))
    }
  }

  #change(make: () => void): void {
    const before = this.isWanted('decision')
    make()
    const isWanted = this.isWanted('decision')
    if (isWanted !== before) for (const listener of this.#wanted) listener(isWanted)
  }
}

function push(reader: Reader, text: string): void {
  reader.isCut ||= reader.waiting.length + text.length > WAITING_CHARS
  reader.waiting = reader.isCut ? '' : reader.waiting + text
  reader.wake()
}
