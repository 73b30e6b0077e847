/** Reads the body of an admitted request before any backend is chosen, up to a bound: a slow sender holds no backend meanwhile. */
import type { Readable } from 'node:stream'
import type { ReceivedBody } from '../forwarding/engine.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import type { Exchange } from './exchange.ts'

/** Leaves what it reads in the exchange; returns undefined at once when there is nothing to read. */
export function receiveBody(exchange: Exchange): Promise<Refusal | undefined> | undefined {
  if (!exchange.hasBody || exchange.isOver) return undefined
  if (exchange.framing.expectsContinue) exchange.response.writeContinue()
  const { body } = exchange.request
  const { bufferedBodyBytes, bodyBytes } = exchange.terms.server.limits
  if (bufferedBodyBytes === 0 || body === undefined) return undefined
  return receive(exchange, body, bufferedBodyBytes, bodyBytes)
}

async function receive(
  exchange: Exchange,
  body: Readable,
  bufferedBytes: number,
  mostBytes: number,
): Promise<Refusal | undefined> {
  // Bytes that came in one packet with the head are there once the parser's turn is over.
  await parserTurn
  // read() without a size returns the first piece alone, from Node.js 26 on.
  const received = exchange.request.complete
    ? { bytes: (body.read(body.readableLength) as Buffer | null) ?? NOTHING, isWhole: true }
    : await gather(exchange, body, Math.min(bufferedBytes, mostBytes))
  if (received.bytes.length > mostBytes) {
    // What follows is dropped as it comes.
    body.resume()
    return refuse('body_too_large', { cause: `more than ${mostBytes} bytes` })
  }
  exchange.received = received
  return undefined
}

const NOTHING = Buffer.alloc(0)
const parserTurn = Promise.resolve()

/** Resolves at the end of the body or beyond bufferedBytes; never when the body breaks off, which is answered elsewhere. */
function gather(exchange: Exchange, body: Readable, bufferedBytes: number): Promise<ReceivedBody> {
  let block: Buffer = NOTHING
  let length = 0
  exchange.wait()
  return new Promise((resolve) => {
    const onData = (chunk: Buffer): void => {
      // One block holds all chunks: many small ones would cost many times their size.
      if (length === 0) block = chunk
      else {
        const neededBytes = length + chunk.length
        if (neededBytes > block.length)
          block = Buffer.concat([block], Math.max(2 * block.length, neededBytes))
        chunk.copy(block, length)
      }
      length += chunk.length
      if (length > bufferedBytes) settle(false)
    }
    const onEnd = (): void => settle(true)
    const settle = (isWhole: boolean): void => {
      body.off('data', onData).off('end', onEnd)
      if (!isWhole) body.pause()
      exchange.goOn()
      resolve({ bytes: block.subarray(0, length), isWhole })
    }
    body.on('data', onData).once('end', onEnd)
  })
}
