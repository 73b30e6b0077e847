/** The backend behind every server under attack. It counts the heads that it sees, which are the work a client can cause. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { backendBody } from '../workload.ts'

/** More than what the sockets between server and reader can hold. */
const bigBody = Buffer.alloc(6_000_000, 'x')
const SLOW_MS = 5
/** Closes each connection after an answer that said nothing of it. */
const closes = process.argv.includes('--closes')

let heads = 0

const server = createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
  // HAProxy looks by itself.
  if (request.url !== '/healthz') heads += 1
  if (closes) response.once('finish', () => request.socket.end())
  if (request.url === '/v1/closes') return void request.socket.destroy()
  if (request.url === '/v1/502') return void response.writeHead(502).end()
  if (request.url === '/v1/big') return answer(response, bigBody)
  if (request.url === '/v1/slow') return void setTimeout(() => answer(response, 'ok'), SLOW_MS)
  request.resume().once('end', () => answer(response, backendBody))
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(`backend listening on http://127.0.0.1:${port}`)
})

process.on('message', () => process.send?.(heads))
process.once('SIGTERM', () => process.exit(0))
process.once('disconnect', () => process.exit(0))

function answer(response: ServerResponse, body: string | Buffer): void {
  response.writeHead(200, { 'Content-Length': Buffer.byteLength(body) })
  response.end(body)
}
