/** The backend behind every server under attack. It counts the heads that it sees, which are the work a client can cause. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { backendBody } from '../workload.ts'

/** More than what the sockets between server and reader can hold. */
const bigBody = Buffer.alloc(6_000_000, 'x')
const SLOW_MS = 5
const VERY_SLOW_MS = 25_000
const ECHO_MS = 10
/** After the first echo one connection gets an answer too many. */
const SURPLUS_AFTER_MS = 1_000
/** Closes each connection after an answer that said nothing of it. */
const closes = process.argv.includes('--closes')

let heads = 0
let firstEchoMs: number | undefined
/** Unix time in ms at which the answer too many was sent; 0 before. */
let surplusAtMs = 0
const turns = new WeakMap<Socket, Promise<void>>()

const server = createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
  // HAProxy looks by itself.
  if (request.url !== '/healthz') heads += 1
  if (closes) response.once('finish', () => request.socket.end())
  if (request.url === '/v1/closes') return void request.socket.destroy()
  if (request.url === '/v1/502') return void response.writeHead(502).end()
  if (request.url === '/v1/big') return answer(response, bigBody)
  if (request.url === '/v1/slow') return void setTimeout(() => answer(response, 'ok'), SLOW_MS)
  if (request.url === '/v1/very-slow')
    return void setTimeout(() => answer(response, 'ok'), VERY_SLOW_MS)
  if (request.url?.startsWith('/v1/echo/')) return inTurn(request, response)
  request.resume().once('end', () => answer(response, backendBody))
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(`backend listening on http://127.0.0.1:${port}`)
})

process.on('message', () => process.send?.(heads))
process.once('SIGTERM', () => process.exit(0))
process.once('disconnect', () => process.exit(0))

/** Most servers read the next request of a connection only when they have answered the one before. */
function inTurn(request: IncomingMessage, response: ServerResponse): void {
  const turn = (turns.get(request.socket) ?? Promise.resolve())
    .then(() => sleep(ECHO_MS))
    .then(() => echo(request, response))
  turns.set(request.socket, turn)
}

/** Says what was asked for, and when the answer too many was sent. */
function echo({ url = '', socket }: IncomingMessage, response: ServerResponse): void {
  firstEchoMs ??= Date.now()
  if (surplusAtMs === 0 && Date.now() - firstEchoMs >= SURPLUS_AFTER_MS) {
    surplusAtMs = Date.now()
    const surplus = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nnobody'
    response.once('finish', () => setTimeout(() => socket.write(surplus), ECHO_MS / 2))
  }
  answer(response, `${url} ${surplusAtMs}`)
}

function answer(response: ServerResponse, body: string | Buffer): void {
  response.writeHead(200, { 'Content-Length': Buffer.byteLength(body) })
  response.end(body)
}
