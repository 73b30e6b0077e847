import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { RequestBody } from '../../../src/core/forwarding/request-body.ts'

it('that is given up while its client breaks off ends nothing', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  client.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc')
  const [request] = (await once(server, 'request')) as [IncomingMessage]
  const body = new RequestBody(request, { received: undefined, bodyLimitBytes: 100 })
  await once(body.resume(), 'data')
  // Between the tick in which Node finds that somebody listens and the one in which it tells of the error.
  request.once('aborted', () => process.nextTick(() => process.nextTick(() => body.destroy())))
  client.resetAndDestroy()
  await new Promise<void>((resolve) => request.once('close', resolve))
  // Vitest fails when an error is thrown that nobody hears.
  await turn()
  expect(body.destroyed).toBe(true)
  server.close()
})
