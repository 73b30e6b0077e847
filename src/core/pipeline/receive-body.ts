/** Reads the body of an admitted request before any backend is chosen, up to a bound: who sends slowly holds no backend meanwhile. */
import type { ReceivedBody } from '../forwarding/forwarder.ts'
import type { IncomingRequest } from '../http/messages.ts'
import { writeContinue } from '../http/node-internals.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import type { Exchange } from './exchange.ts'

export interface ReceiveBodyOptions {
  /** What is read of a body before it is passed on; 0: nothing. */
  readonly bufferedBytes: number
  /** Longest body. */
  readonly bodyLimitBytes: number
}

type Received = Refusal | undefined

/** Leaves what was received in the exchange; undefined at once when there is nothing to wait for. */
export function createReceiveBody(options: ReceiveBodyOptions) {
  return function receiveBody(exchange: Exchange): Promise<Received> | undefined {
    if (!exchange.hasBody || exchange.isOver) return undefined
    if (exchange.expectsContinue) writeContinue(exchange.response)
    return options.bufferedBytes === 0 ? undefined : receive(exchange, options)
  }
}

async function receive(
  exchange: Exchange,
  { bufferedBytes, bodyLimitBytes }: ReceiveBodyOptions,
): Promise<Received> {
  const { request } = exchange
  // What came in one packet with the head is there once the parser's turn is over.
  await ofThisTurn
  const received = request.complete
    ? { bytes: readAll(request), isWhole: true }
    : await gather(exchange, Math.min(bufferedBytes, bodyLimitBytes))
  if (received.bytes.length > bodyLimitBytes) {
    // What follows is dropped as it comes.
    request.resume()
    return refuse('body_too_large', { cause: `more than ${bodyLimitBytes} bytes` })
  }
  exchange.received = received
  return undefined
}

const NOTHING = Buffer.alloc(0)
/** Asked for no number of bytes, Node.js from version 26 on gives the first piece alone. */
const readAll = (request: IncomingRequest): Buffer =>
  (request.read(request.readableLength) as Buffer | null) ?? NOTHING
const ofThisTurn = Promise.resolve()

/** Ends with the body or beyond so many bytes; never when it breaks off, which others answer. */
function gather(exchange: Exchange, bufferedBytes: number): Promise<ReceivedBody> {
  const { request } = exchange
  let block: Buffer = NOTHING
  let length = 0
  exchange.wait()
  return new Promise((resolve) => {
    const onData = (chunk: Buffer): void => {
      // One block for all: a body of many small chunks would cost many times its size.
      if (length === 0) block = chunk
      else {
        if (length + chunk.length > block.length) block = grown(block, length + chunk.length)
        chunk.copy(block, length)
      }
      length += chunk.length
      if (length > bufferedBytes) settle(false)
    }
    const onEnd = (): void => settle(true)
    const settle = (isWhole: boolean): void => {
      request.off('data', onData).off('end', onEnd)
      if (!isWhole) request.pause()
      exchange.goOn()
      resolve({ bytes: block.subarray(0, length), isWhole })
    }
    request.on('data', onData).once('end', onEnd)
  })
}

function grown(block: Buffer, atLeastBytes: number): Buffer {
  const larger = Buffer.allocUnsafe(Math.max(2 * block.length, atLeastBytes))
  block.copy(larger)
  return larger
}
