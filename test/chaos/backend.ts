/**
 * A backend, `node backend.ts PORT FILE`: it writes down each request it sees before it answers, one JSON line each into the file,
 * so that the book outlives a kill; its moods come over the channel.
 */
import { openSync, writeSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { argv, exit } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocketServer } from 'ws'
import { bodyOf, readTarget } from './bodies.ts'

export type Mood = 'well' | 'slow' | 'breaking' | 'busy'
export type Line =
  | {
      readonly saw: number
      readonly method: string
      readonly client: string
      readonly atMs: number
    }
  | { readonly read: number; readonly body: 'whole' | 'wrong' }

const SLOW_MS = 300

const [, , port, file = ''] = argv
const book = openSync(file, 'a')
const note = (line: Line): void => void writeSync(book, `${JSON.stringify(line)}\n`)
const saw = ({ headers, method = '' }: IncomingMessage, number: number): void =>
  note({ saw: number, method, client: String(headers['x-client-id']), atMs: Date.now() })
let mood: Mood = 'well'
process.on('message', (told) => void (mood = told as Mood))
process.once('disconnect', () => exit(0))

// A connection that is closed while idle may cost a POST, which is no fault of anyone here.
const server = createServer(
  { keepAliveTimeout: 600_000, requestTimeout: 0 },
  (request, response) => {
    const { number, sends, gets } = readTarget(request.url ?? '')
    saw(request, number)
    void readWhole(request).then(async (body) => {
      if (body === undefined) return
      const isWhole = body === (sends === 0 ? '' : bodyOf(number, sends))
      note({ read: number, body: isWhole ? 'whole' : 'wrong' })
      if (mood === 'slow') await sleep(SLOW_MS)
      if (mood === 'breaking') return breakOff(response, number)
      response.writeHead(mood === 'busy' ? 503 : 200, { 'x-backend': 'true' })
      response.end(bodyOf(number, gets))
    })
  },
)
const echo = new WebSocketServer({ noServer: true })
server.on('upgrade', (request, socket, head) => {
  saw(request, readTarget(request.url ?? '').number)
  echo.handleUpgrade(request, socket, head, (tunnel) => {
    tunnel.on('message', (data: Buffer) => tunnel.send(data, { binary: false }))
    tunnel.on('error', () => undefined)
  })
})
server.on('clientError', (_, socket) => socket.destroy())
server.listen(Number(port), '127.0.0.1', () => process.send?.('listening'))

/** undefined: it did not come to its end. */
async function readWhole(request: IncomingMessage): Promise<string | undefined> {
  let body = ''
  try {
    for await (const text of request.setEncoding('latin1')) body += String(text)
    return body
  } catch {
    return undefined
  }
}

/** Ends without an answer, within one, or with what is none. */
function breakOff(response: ServerResponse, number: number): void {
  if (number % 3 === 0) return void response.destroy()
  if (number % 3 === 1) {
    response.writeHead(200, { 'content-length': 1_000 })
    return void response.write('half', () => response.destroy())
  }
  response.socket?.end('HTTP/1.1 000 none\r\ncontent length: x\r\n\r\n')
}
