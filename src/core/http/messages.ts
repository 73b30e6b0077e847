/** The parts of a request and a response that the gateway uses, over HTTP/1.1 and HTTP/2 alike. Types only. */
import type { Readable } from 'node:stream'

export interface IncomingRequest {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly httpVersion: string
  /** Flat name, value array, in the order and spelling received. */
  readonly rawHeaders: string[]
  /** Whether a body follows, where the protocol says so whatever the fields say: HTTP/2 (RFC 9113 8.1). */
  readonly bodyFollows?: boolean | undefined
  /** Bytes of the body that have come. */
  readonly receivedBytes: number
  /** The whole body has come, read or unread. */
  readonly complete: boolean
  /** undefined: there is none, or it cannot be read. */
  readonly body: Readable | undefined
}

export interface OutgoingResponse {
  /** Another request may follow on the same connection. Read when the head is written. */
  shouldKeepAlive: boolean
  readonly headersSent: boolean
  readonly destroyed: boolean
  readonly writableFinished: boolean
  readonly writableLength: number
  /** Written bytes that the kernel, or HTTP/2, has taken. HTTP/1.1 counts all of the connection. */
  readonly takenBytes: number
  /** The gateway, not the client, ended the answer early. HTTP/2 alone. */
  readonly isCutOff?: boolean | undefined
  /** Refuses new requests on the connection; those under way finish. HTTP/2 alone: HTTP/1.1 has shouldKeepAlive. */
  readonly endConnection?: (() => void) | undefined
  writeContinue(): void
  /** Sends a whole answer. body: with a declared length, or none. */
  send(status: number, headers: string[], body?: Buffer): void
  /** Sends the head, with the first piece of the body if it is there. headers: flat name, value array. Returns like write(). */
  begin(status: number, headers: string[], chunk?: Buffer): boolean
  /** Owns the chunk from now on: its memory may go once it is written. Returns false if it is buffered; `drain` follows when all has left. */
  write(chunk: Buffer): boolean
  end(): unknown
  destroy(): unknown
  /** One listener each. close: the answer has been written, or nothing more of it can be; it may come before end() has returned. */
  once(event: 'close' | 'drain', listener: () => void): unknown
}
