/** The bare backend: answers every request with 200 bytes of JSON from memory, and can count who asked. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { backendBody } from './workload.ts'

/** Sent over IPC by the bench: start counting anew, or stop and tell. */
export type BackendCommand = 'record' | 'report'

export interface BackendReport {
  readonly requests: number
  /** Distinct values of X-Client-Id, or of the key itself where no gateway stands in front. */
  readonly clients: number
  /** Requests that named their client in X-Client-Id. */
  readonly identified: number
  /** Requests that carried the key. */
  readonly credentials: number
}

let recording:
  { requests: number; identified: number; credentials: number; clients: Set<string> } | undefined

const headers = [
  'Content-Type',
  'application/json; charset=utf-8',
  'Content-Length',
  String(Buffer.byteLength(backendBody)),
]

const server = createServer((request, response) => {
  if (recording) {
    const { 'x-client-id': client, authorization } = request.headers
    recording.requests++
    recording.clients.add(String(client ?? authorization))
    if (client !== undefined) recording.identified++
    if (authorization !== undefined) recording.credentials++
  }
  response.writeHead(200, headers)
  response.end(backendBody)
})

process.on('message', (command: BackendCommand) => {
  if (command === 'record')
    recording = { requests: 0, identified: 0, credentials: 0, clients: new Set() }
  const { requests = 0, identified = 0, credentials = 0, clients = new Set() } = recording ?? {}
  process.send?.({
    requests,
    identified,
    credentials,
    clients: clients.size,
  } satisfies BackendReport)
  if (command === 'report') recording = undefined
})
process.once('SIGTERM', () => process.exit(0))
process.once('disconnect', () => process.exit(0))

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(`backend listening on http://127.0.0.1:${port}`)
})
