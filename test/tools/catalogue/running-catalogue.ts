/** A catalogue service on a free port and a temporary file, and plain requests to it over real sockets. */
import { Agent, request, type IncomingHttpHeaders } from 'node:http'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { startCatalogue } from '../../../src/tools/catalogue/server.ts'
import { atEnd } from '../../support/ending.ts'
import { temporaryFolder } from '../../support/processes.ts'

export interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

interface Message {
  readonly body?: string | Buffer
  readonly headers?: Record<string, string>
  /** Sends the body in chunks, without a Content-Length. */
  readonly chunked?: boolean
}

export type RunningCatalogue = Awaited<ReturnType<typeof runCatalogue>>

/** It ends with the test file, if not before. */
export async function runCatalogue({ folder = temporaryFolder(), seed = false } = {}) {
  const file = join(folder, 'pets.db')
  const logged: string[] = []
  const log = (line: string): void => void logged.push(line)
  const catalogue = await startCatalogue({ host: '127.0.0.1', port: 0, file, seed, log })
  const { port } = catalogue.address
  const agent = new Agent({ keepAlive: true })
  const send = (
    method: string,
    path: string,
    { body, headers = {}, chunked }: Message = {},
  ): Promise<Reply> =>
    new Promise((resolve, reject) => {
      const length =
        body === undefined || chunked ? {} : { 'content-length': Buffer.byteLength(body) }
      const sent = request(
        { agent, host: '127.0.0.1', port, method, path, headers: { ...length, ...headers } },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('error', reject)
          response.on('end', () => {
            const text = Buffer.concat(chunks).toString()
            resolve({ status: response.statusCode ?? 0, headers: response.headers, text })
          })
        },
      )
      sent.on('error', reject)
      if (chunked) sent.flushHeaders()
      sent.end(body)
    })
  const stop = async (): Promise<void> => {
    agent.destroy()
    await catalogue.close()
  }
  atEnd(stop)
  return {
    catalogue,
    file,
    folder,
    logged,
    send,
    create: (json: string) =>
      send('POST', '/v1/pets', { body: json, headers: { 'content-type': 'application/json' } }),
    /** A bare connection, for what no client library would send. */
    socket: () =>
      new Promise<Socket>((resolve, reject) => {
        const socket = connect(port, '127.0.0.1', () => resolve(socket))
        socket.once('error', reject)
      }),
    remove: stop,
  }
}

/** The same service, closed and opened again on the same file. */
export async function restarted(
  { folder, remove }: RunningCatalogue,
  seed = false,
): Promise<RunningCatalogue> {
  await remove()
  return runCatalogue({ folder, seed })
}

/** Everything the peer sends until it closes. */
export function textUntilClose(socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.on('error', reject)
    socket.on('close', () => resolve(Buffer.concat(chunks).toString()))
  })
}
