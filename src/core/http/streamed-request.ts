/** What requests of both protocols have in common: their body is a stream. */
import type { Readable } from 'node:stream'

type BodyEvent = 'data' | 'end' | 'close' | 'error'

export abstract class StreamedRequest {
  /** undefined: there is no body. */
  protected abstract readonly body: Readable | undefined

  get destroyed(): boolean {
    return this.body?.destroyed ?? false
  }

  get readableEnded(): boolean {
    return this.body?.readableEnded ?? false
  }

  get readableFlowing(): boolean | null {
    return this.body?.readableFlowing ?? null
  }

  get readableLength(): number {
    return this.body?.readableLength ?? 0
  }

  read(bytes: number): unknown {
    return this.body?.read(bytes) ?? null
  }

  pause(): void {
    this.body?.pause()
  }

  resume(): void {
    this.body?.resume()
  }

  on(event: BodyEvent, listener: (chunk: Buffer) => void): this {
    this.body?.on(event, listener)
    return this
  }

  once(event: 'end', listener: () => void): this {
    this.body?.once(event, listener)
    return this
  }

  off(event: BodyEvent, listener: (chunk: Buffer) => void): this {
    this.body?.off(event, listener)
    return this
  }
}
