/** The connection pools of the undici engine, set up so that a request knows the connection it is sent on. */
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import type * as Undici from 'undici'
import type { Client, Dispatcher, Pool, buildConnector } from 'undici'
import type { Backend } from '../../backends/backend.ts'
import { maxAnswerHeadBytes, retirementMs, type EngineOptions } from '../engine.ts'

export type Controller = Dispatcher.DispatchController

/** The connection that a client of the pool holds now; undici itself does not tell requests what carries them. */
export interface Line {
  /** Requests the connection has carried. */
  carried: number
  /** On performance.now(); it is closed behind its answer from then on. */
  retiresMs: number
  wasReset: boolean
  socket: Socket | undefined
  /** Whose request it carries, or carried last. */
  handler: Handler | undefined
}

/** What is dispatched with; `line` is set just before the request is queued for its connection. */
export interface Handler extends Dispatcher.DispatchHandler {
  line: Line | undefined
  /** What is read is no answer, or no more of one. */
  onUnreadable(error: Error): void
}

/** Each connection carries one request at a time. */
export function createUndiciPool(backend: Backend, limits: EngineOptions): Pool {
  // Not before it is needed: most gateways run on another engine, and each process would load its 109 files.
  const { Client, Pool, buildConnector } = createRequire(import.meta.url)('undici') as typeof Undici
  const { connections, connectionUses, timeouts } = limits
  const servername = backend.tls?.servername ?? ''
  const connector = buildConnector({ timeout: timeouts.connectMs, allowH2: false, ...backend.tls })
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
      const line: Line = {
        carried: 0,
        retiresMs: Infinity,
        wasReset: false,
        socket: undefined,
        handler: undefined,
      }
      const connect: buildConnector.connector = (target, callback) =>
        connector({ ...target, servername }, (...outcome) => {
          if (outcome[1]) watch(line, outcome[1], limits)
          callback(...outcome)
        })
      return lineClient(new Client(origin, { ...options, connect }), line, connectionUses)
    },
  })
}

function watch(line: Line, socket: Socket, limits: EngineOptions): void {
  const restart = (retiresMs: number): void => {
    line.carried = 0
    line.retiresMs = retiresMs
  }
  restart(retirementMs(performance.now(), limits))
  line.wasReset = false
  line.socket = socket
  socket.once('close', () => {
    if (line.socket === socket) restart(Infinity)
  })
  // Registered before undici's own listener, which may take a reset for the end of the body.
  socket.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'ECONNRESET') line.wasReset = true
    // undici itself tells of it when the socket has closed, a phase of the event loop later: the head would be out by then.
    if (error.name === 'HTTPParserError') line.handler?.onUnreadable(error)
  })
}

/** The client itself, which tells what it dispatches of its line, and whether it is the last on it. */
function lineClient(client: Client, line: Line, connectionUses: number): Client {
  const dispatch = client.dispatch.bind(client)
  client.dispatch = (options, handler: Dispatcher.DispatchHandler | Handler) => {
    if ('line' in handler) handler.line = line
    const isLast = line.carried + 1 >= connectionUses || line.retiresMs <= performance.now()
    return dispatch(isLast ? { ...options, reset: true } : options, handler)
  }
  return client
}
