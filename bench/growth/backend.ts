/**
 * The backend of the growth runs. `?bytes=N` asks for a body of N bytes, else it is the 200 bytes of the main bench; an
 * uploaded body is read to its end and its length checked. `--errors SHARE` fails that share of the requests, half with a 500, half by
 * cutting the connection.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import { backendBody } from '../workload.ts'

const { values } = parseArgs({ options: { errors: { type: 'string', default: '0' } } })
const errorShare = Number(values.errors)

const small = Buffer.from(backendBody)
const chunk = Buffer.alloc(65_536, 'x')
let clients: Set<string> | undefined

const server = createServer((request, response) => {
  clients?.add(String(request.headers['x-client-id']))
  if (errorShare > 0 && Math.random() < errorShare) return fail(request, response)
  if (request.method === 'POST') return receive(request, response)
  const bytes = Number(/[?&]bytes=(\d+)/.exec(request.url ?? '')?.[1] ?? NaN)
  if (!(bytes >= 0)) {
    response.writeHead(200, ['Content-Type', 'application/json', 'Content-Length', '200'])
    response.end(small)
    return
  }
  response.writeHead(200, ['Content-Type', 'text/plain', 'Content-Length', String(bytes)])
  sendBytes(response, bytes)
})

function sendBytes(response: ServerResponse, bytes: number): void {
  let left = bytes
  const more = (): void => {
    while (left > chunk.length) {
      left -= chunk.length
      if (!response.write(chunk)) {
        response.once('drain', more)
        return
      }
    }
    response.end(chunk.subarray(0, left))
  }
  more()
}

function receive(request: IncomingMessage, response: ServerResponse): void {
  let received = 0
  request.on('data', (part: Buffer) => (received += part.length))
  request.on('end', () => {
    const complete = received === Number(request.headers['content-length'])
    response.writeHead(complete ? 200 : 400, ['Content-Length', '200'])
    response.end(small)
  })
}

function fail(request: IncomingMessage, response: ServerResponse): void {
  if (Math.random() < 0.5) {
    request.socket.destroy()
    return
  }
  request.resume()
  response.writeHead(500, ['Content-Type', 'application/json', 'Content-Length', '2'])
  response.end('{}')
}

/** IPC: `record` starts to note who asks, `report` tells how many different clients did. */
process.on('message', (command: 'record' | 'report') => {
  process.send?.(clients?.size ?? 0)
  clients = command === 'record' ? new Set() : undefined
})
process.once('SIGTERM', () => process.exit(0))
process.once('disconnect', () => process.exit(0))

server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(`backend listening on http://127.0.0.1:${port}`)
})
