/** The connection pools of the undici engine, set up so that a request knows the connection it is sent on. */
import type { Socket } from 'node:net'
import { Client, Pool, buildConnector, type Dispatcher } from 'undici'
import type { Backend } from '../../backends/backend.ts'
import { maxAnswerHeadBytes, type EngineOptions } from '../engine.ts'

export type Controller = Dispatcher.DispatchController

/** The connection that a client of the pool holds now; undici itself does not tell requests what carries them. */
export interface Line {
  /** Requests the connection has carried. */
  carried: number
  wasReset: boolean
}

/** What is dispatched with; `line` is set just before the request is queued for its connection. */
export interface Handler extends Dispatcher.DispatchHandler {
  line: Line | undefined
}

/** Each connection carries one request at a time. */
export function createUndiciPool(backend: Backend, { connections, timeouts }: EngineOptions): Pool {
  const servername = backend.serverName ?? ''
  const connector = buildConnector({ timeout: timeouts.connectMs, allowH2: false })
  return new Pool(backend.name, {
    connections,
    allowH2: false,
    pipelining: 1,
    keepAliveTimeout: timeouts.idleMs,
    keepAliveMaxTimeout: timeouts.idleMs,
    keepAliveTimeoutThreshold: 1_000,
    maxHeaderSize: maxAnswerHeadBytes,
    strictContentLength: true,
    factory: (origin, options) => {
      const line: Line = { carried: 0, wasReset: false }
      const connect: buildConnector.connector = (target, callback) =>
        connector({ ...target, servername }, (...outcome) => {
          if (outcome[1]) watch(line, outcome[1])
          callback(...outcome)
        })
      return lineClient(new Client(origin, { ...options, connect }), line)
    },
  })
}

function watch(line: Line, socket: Socket): void {
  line.carried = 0
  line.wasReset = false
  // Registered before undici's own listener, which may take a reset for the end of the body.
  socket.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'ECONNRESET') line.wasReset = true
  })
}

/** The client itself, which tells what it dispatches of its line. */
function lineClient(client: Client, line: Line): Client {
  const dispatch = client.dispatch.bind(client)
  client.dispatch = (options, handler: Dispatcher.DispatchHandler | Handler) => {
    if ('line' in handler) handler.line = line
    return dispatch(options, handler)
  }
  return client
}
