/** A backend that reads every request strictly, remembers it by its X-Request-Id, and answers with what it was asked for. */
import { createServer, type AddressInfo, type Socket } from 'node:net'
import type { RecordedRequest } from '../support/raw-backend.ts'
import { readRequests } from '../support/strict-request-reader.ts'

export interface Seen {
  readonly request: RecordedRequest
  /** Its body has arrived up to its end. */
  whole: boolean
}

export interface RecordingBackend {
  readonly url: string
  /** What has come since the last call, by request id; heads without an end included. */
  take(): { seen: Map<string, Seen>; problems: string[] }
  close(): Promise<void>
}

/** What the backend says of the target of a request, in every answer to it. */
export const ECHO = 'X-Echo'

export async function startRecordingBackend(): Promise<RecordingBackend> {
  let seen = new Map<string, Seen>()
  let problems: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    sockets.add(socket)
    let head: Seen | undefined
    const reader = readRequests(0, {
      head: (request) => {
        const ids = request.all('x-request-id')
        if (ids.length !== 1 || seen.has(ids[0] ?? '')) problems.push(`request id ${ids.join()}`)
        head = { request, whole: false }
        seen.set(ids[0] ?? '', head)
      },
      request: (request) => {
        if (head) Object.assign(head, { request, whole: true })
        head = undefined
        socket.write(echo(request), 'latin1')
      },
    })
    const look = (): void => {
      // A request that breaks off is the client's doing; all else would be the gateway's.
      if (reader.problem !== undefined && head === undefined) problems.push(reader.problem)
    }
    socket.on('data', (chunk: Buffer) => {
      reader.push(chunk)
      if (reader.problem !== undefined) socket.destroy()
      look()
    })
    socket.on('end', () => {
      reader.end()
      look()
      socket.end()
    })
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    take: () => {
      const taken = { seen, problems }
      seen = new Map()
      problems = []
      return taken
    },
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** In chunks or with a length, by turns of the target's length. */
function echo({ method, target }: RecordedRequest): string {
  const head = `HTTP/1.1 200 OK\r\n${ECHO}: ${target}\r\n`
  const bytes = target.length
  if (bytes % 2 === 0) {
    const body = method === 'HEAD' ? '' : `${bytes.toString(16)}\r\n${target}\r\n0\r\n\r\n`
    return `${head}Transfer-Encoding: chunked\r\n\r\n${body}`
  }
  return `${head}Content-Length: ${bytes}\r\n\r\n${method === 'HEAD' ? '' : target}`
}
