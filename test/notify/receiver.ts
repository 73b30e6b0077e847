/** A receiver of webhooks that fails first, and looks at each signature itself. */
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

export interface Received {
  readonly id: string
  readonly isSigned: boolean
  readonly status: number
  readonly type: string
  readonly data: Record<string, unknown>
}

/** fails: how many are answered 503 before the first is taken. */
export async function startReceiver({ fails = 0 } = {}) {
  const received: Received[] = []
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const field = (name: string): string => String(request.headers[`webhook-${name}`])
      const status = received.length < fails ? 503 : 204
      const signed = createHmac('sha256', Buffer.alloc(32, 7))
        .update(`${field('id')}.${field('timestamp')}.${body}`)
        .digest('base64')
      const isFresh = Math.abs(Date.now() / 1000 - Number(field('timestamp'))) < 300
      const isSigned = isFresh && field('signature') === `v1,${signed}`
      const { type, data } = JSON.parse(body) as Pick<Received, 'type' | 'data'>
      received.push({ id: field('id'), isSigned, status, type, data })
      response.writeHead(status).end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    received,
    taken: () => received.filter(({ status }) => status === 204),
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
