/** What the gateway uses of a request and its response: Node's own of HTTP/1.1 are such. Types only. */

/** What a request came on, as far as it is its own. */
export interface ClientChannel {
  readonly destroyed: boolean
  /** That have come on it. */
  readonly bytesRead: number
  /** How much of what was written to it has left us; undefined for a socket, of which takenBytes() tells. */
  readonly takenBytes?: number | undefined
  destroy(): unknown
  once(event: 'close', listener: () => void): unknown
  /** Of a stream: it was destroyed here, and not by its client. */
  readonly isCutOff?: boolean | undefined
  /** Of a stream: takes nothing new on its connection. undefined for a connection, of which the response tells. */
  readonly endConnection?: (() => void) | undefined
}

export interface IncomingRequest {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly httpVersion: string
  /** Flat, in the order and spelling received. */
  readonly rawHeaders: string[]
  readonly headers: {
    readonly connection?: string | undefined
    readonly origin?: string | undefined
    readonly 'access-control-request-method'?: string | undefined
    readonly 'user-agent'?: string | undefined
    readonly traceparent?: string | string[] | undefined
    readonly tracestate?: string | string[] | undefined
  }
  readonly socket: ClientChannel
  /** All of its body has come; it need not have been read. */
  readonly complete: boolean
  readonly destroyed: boolean
  readonly readableEnded: boolean
  readonly readableFlowing: boolean | null
  readonly readableLength: number
  read(bytes: number): unknown
  pause(): unknown
  resume(): unknown
  on(event: 'data', listener: (chunk: Buffer) => void): this
  on(event: 'end' | 'close' | 'error', listener: () => void): this
  once(event: 'end', listener: () => void): this
  off(event: 'data', listener: (chunk: Buffer) => void): this
  off(event: 'end' | 'close', listener: () => void): this
}

export interface OutgoingResponse {
  /** Whether another request may follow on the same connection. */
  shouldKeepAlive: boolean
  readonly headersSent: boolean
  readonly destroyed: boolean
  readonly writableFinished: boolean
  readonly writableLength: number
  /** null while an answer before it has the connection, and behind its end. */
  readonly socket: object | null
  writeContinue(): void
  /** headers: flat. */
  writeHead(status: number, headers: string[]): unknown
  flushHeaders(): void
  /** false: `drain` tells when all of it has left. */
  write(chunk: Buffer): boolean
  end(body: string | undefined, encoding: 'latin1'): unknown
  end(body?: string | Buffer): unknown
  destroy(): unknown
  once(event: 'close' | 'drain' | 'socket', listener: () => void): unknown
  emit(event: 'close'): boolean
}
