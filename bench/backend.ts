/**
 * The backend behind every server of the bench: 200 bytes of JSON from memory, and it can count who asked. Other paths answer slowly,
 * with much or not at all, for attacks that need such a backend. --closes: each connection ends after an answer that said nothing of it.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { listen } from './own-process.ts'
import { backendBody, bigBytes, bigPath, requestPath } from './workload.ts'

/** Sent over IPC by the bench: start counting anew, or say what was counted. */
export type BackendCommand = 'record' | 'report'

export interface BackendReport {
  /** Requests whose head was seen. */
  readonly requests: number
  /** Distinct values of X-Client-Id, or of the key itself where no gateway stands in front. */
  readonly clients: number
  /** Requests that named their client in X-Client-Id. */
  readonly identified: number
  /** Requests that carried the key. */
  readonly credentials: number
}

const closes = process.argv.includes('--closes')

const headers = ['Content-Type', 'application/json; charset=utf-8', 'Content-Length', '200']

const big = Buffer.alloc(bigBytes, 'x')

const paths: Readonly<
  Record<string, (request: IncomingMessage, response: ServerResponse) => unknown>
> = {
  '/v1/closes': (request) => request.socket.destroy(),
  '/v1/502': (_request, response) => response.writeHead(502).end(),
  [bigPath]: (_request, response) => answer(response, big),
  '/v1/very-slow': (_request, response) => setTimeout(() => answer(response, 'ok'), 25_000),
}

let [requests, identified, credentials] = [0, 0, 0]
let clients: Set<string> | undefined

const server = createServer({ keepAliveTimeout: 600_000 }, (request, response) => {
  const { method, url = '' } = request
  // HAProxy looks by itself.
  if (url !== '/healthz') requests += 1
  if (clients) count(request, clients)
  if (closes) response.once('finish', () => request.socket.end())
  if (method === 'GET' && url === requestPath) {
    response.writeHead(200, headers)
    return response.end(backendBody)
  }
  const respond = paths[url]
  if (respond !== undefined) return respond(request, response)
  return request.resume().once('end', () => answer(response, backendBody))
})

function count(request: IncomingMessage, names: Set<string>): void {
  const { 'x-client-id': client, authorization } = request.headers
  names.add(String(client ?? authorization))
  if (client !== undefined) identified += 1
  if (authorization !== undefined) credentials += 1
}

function answer(response: ServerResponse, body: string | Buffer): void {
  response.writeHead(200, { 'Content-Length': Buffer.byteLength(body) })
  response.end(body)
}

process.on('message', (command: BackendCommand) => {
  if (command === 'record') [requests, identified, credentials, clients] = [0, 0, 0, new Set()]
  const report: BackendReport = { requests, identified, credentials, clients: clients?.size ?? 0 }
  process.send?.(report)
  if (command === 'report') clients = undefined
})

listen(server)
