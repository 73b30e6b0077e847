/**
 * A proxy without any policy, on node:net with a tiny parser and a tiny client, so that what a gateway takes beyond it is the
 * price of policy: `bare-proxy.ts BACKEND`. It takes GET alone.
 */
import { connect, createServer, type Socket } from 'node:net'
import { listen } from '../own-process.ts'

const backend = process.argv[2]
if (backend === undefined) throw new Error('usage: bare-proxy.ts BACKEND')
const { hostname, port } = new URL(backend)

/** Where the first message ends, head and body; undefined while it is incomplete. */
function endOfMessage(bytes: Buffer): number | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const length = /\r\ncontent-length: *(\d+)/i.exec(bytes.toString('latin1', 0, headEnd))?.[1]
  const end = headEnd + 4 + Number(length ?? 0)
  return bytes.length < end ? undefined : end
}

interface BackendConnection {
  readonly socket: Socket
  done: (answer: Buffer | undefined) => void
}

const free: BackendConnection[] = []

/** Sends a whole request and calls back with the whole answer, undefined if there is none. */
function exchange(request: Buffer, done: BackendConnection['done']): void {
  const connection = free.pop() ?? open()
  connection.done = done
  connection.socket.write(request)
}

function open(): BackendConnection {
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  const connection: BackendConnection = { socket, done: () => undefined }
  let pending: Buffer | undefined
  socket.on('data', (chunk: Buffer) => {
    const bytes = pending ? Buffer.concat([pending, chunk]) : chunk
    const isWhole = endOfMessage(bytes) !== undefined
    pending = isWhole ? undefined : bytes
    if (!isWhole) return
    free.push(connection)
    connection.done(bytes)
  })
  socket.on('error', () => undefined)
  socket.once('close', () => {
    const at = free.indexOf(connection)
    if (at >= 0) free.splice(at, 1)
    else connection.done(undefined)
  })
  return connection
}

const server = createServer({ noDelay: true }, (client) => {
  let pending: Buffer | undefined
  let isBusy = false
  const next = (): void => {
    const end = isBusy || !pending ? undefined : endOfMessage(pending)
    if (!pending || end === undefined) return
    const request = pending.subarray(0, end)
    pending = end < pending.length ? pending.subarray(end) : undefined
    isBusy = true
    exchange(request, (answer) => {
      isBusy = false
      if (answer) client.write(answer)
      else client.destroy()
      next()
    })
  }
  client.on('data', (chunk: Buffer) => {
    pending = pending ? Buffer.concat([pending, chunk]) : chunk
    next()
  })
  client.on('error', () => undefined)
})

listen(server)
