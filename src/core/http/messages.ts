/** The parts of a request and a response that the gateway uses; Node's HTTP/1.1 classes have them. Types only. */

/** The channel of a request: its HTTP/1.1 connection, or its HTTP/2 stream. */
export interface ClientChannel {
  readonly destroyed: boolean
  /** Bytes received on the channel. */
  readonly bytesRead: number
  /** Written bytes that have left the process; undefined: this is a socket, see takenBytes(). */
  readonly takenBytes?: number | undefined
  destroy(): unknown
  once(event: 'close', listener: () => void): unknown
  /** The gateway, not the client, destroyed the stream; undefined: this is a connection. */
  readonly isCutOff?: boolean | undefined
  /** Refuses new requests on the stream's connection; undefined: this is a connection, which the response ends. */
  readonly endConnection?: (() => void) | undefined
}

export interface IncomingRequest {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly httpVersion: string
  /** Flat name, value array, in the order and spelling received. */
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
  /** The whole body has come, read or unread. */
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
  /** Another request may follow on the same connection. */
  shouldKeepAlive: boolean
  readonly headersSent: boolean
  readonly destroyed: boolean
  readonly writableFinished: boolean
  readonly writableLength: number
  /** null: an earlier answer has the connection, or this one has ended. */
  readonly socket: object | null
  writeContinue(): void
  /** headers: flat name, value array. */
  writeHead(status: number, headers: string[]): unknown
  flushHeaders(): void
  /** Returns false if the chunk is buffered; `drain` follows when all has left. */
  write(chunk: Buffer): boolean
  end(body: string | undefined, encoding: 'latin1'): unknown
  end(body?: string | Buffer): unknown
  destroy(): unknown
  once(event: 'close' | 'drain' | 'socket', listener: () => void): unknown
  emit(event: 'close'): boolean
}
