/** A backend that reads every request strictly, remembers it by its X-Request-Id, and answers with what it was asked for. */
import type { RecordedRequest } from '../support/raw-backend.ts'
import { readRequests } from '../support/strict-request-reader.ts'
import { startStrictBackend } from './strict-backend.ts'

export interface Seen {
  readonly request: RecordedRequest
  /** Its body has arrived up to its end. */
  whole: boolean
}

/** What the backend says of the target of a request, in every answer to it. */
export const ECHO = 'X-Echo'

export async function startRecordingBackend() {
  let seen = new Map<string, Seen>()
  let problems: string[] = []
  const url = await startStrictBackend((socket) => {
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
    return {
      push: (chunk) => {
        reader.push(chunk)
        if (reader.problem !== undefined) socket.destroy()
        look()
      },
      end: () => {
        reader.end()
        look()
      },
    }
  })
  /** What has come since the last call, by request id; heads without an end included. */
  const take = () => {
    const taken = { seen, problems }
    seen = new Map()
    problems = []
    return taken
  }
  return { url, take }
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
