/** The connection pools of the undici engine, set up so that a request knows the connection it is sent on. */
import type { EventEmitter } from 'node:events'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import type * as Undici from 'undici'
import type { Client, Dispatcher, Pool, buildConnector } from 'undici'
import type { Backend } from '../../backends/backend.ts'
import { ConnectionLife, Rests } from '../connection-life.ts'
import { maxAnswerHeadBytes, type EngineOptions } from '../engine.ts'

export type Controller = Dispatcher.DispatchController

/** The connection that a client of the pool holds now; undici itself does not tell requests what carries them. */
export interface Line {
  /** undefined while there is no connection. */
  life: ConnectionLife | undefined
  wasReset: boolean
  socket: Socket | undefined
  /** Whose request it carries, or carried last. */
  handler: Handler | undefined
}

/** What is dispatched with; `line` is set just before the request is queued for its connection. */
export interface Handler extends Dispatcher.DispatchHandler {
  line: Line | undefined
  readonly settled: boolean
  /** What is read is no answer, or no more of one. */
  onUnreadable(error: Error): void
}

/** Each connection carries one request at a time. */
export function createUndiciPool(backend: Backend, limits: EngineOptions): Pool {
  // Not before it is needed: most gateways run on another engine, and each process would load its 109 files.
  const { Client, Pool, buildConnector } = createRequire(import.meta.url)('undici') as typeof Undici
  const { connections, timeouts } = limits
  const rests = new Rests(backend, limits)
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
        life: undefined,
        wasReset: false,
        socket: undefined,
        handler: undefined,
      }
      const connect: buildConnector.connector = (target, callback) =>
        connector({ ...target, servername }, (...outcome) => {
          if (outcome[1]) watch(line, outcome[1], rests)
          callback(...outcome)
        })
      return lineClient(new Client(origin, { ...options, connect }), line)
    },
  })
}

function watch(line: Line, socket: Socket, rests: Rests): void {
  line.life = new ConnectionLife(rests)
  line.wasReset = false
  line.socket = socket
  socket.once('close', () => {
    if (line.socket === socket) line.life = undefined
  })
  // Registered before undici's own listener, which may take a reset for the end of the body.
  socket.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'ECONNRESET') line.wasReset = true
    // undici itself tells of it when the socket has closed, a phase of the event loop later: the head would be out by then.
    // The second is undici's own text where an answer begins while nothing is under way.
    if (error.name !== 'HTTPParserError' && error.message !== 'bad response') return
    if (line.handler?.settled === false) line.handler.onUnreadable(error)
    else rests.surplus()
  })
}

/** The client itself; each request that it dispatches is reported to its line, and its connection rests. */
function lineClient(client: Client, line: Line): Client {
  const dispatch = client.dispatch.bind(client)
  client.dispatch = (options, handler: Dispatcher.DispatchHandler | Handler) => {
    if ('line' in handler) handler.line = line
    return dispatch(line.life?.isNearEnd() ? { ...options, reset: true } : options, handler)
  }
  // The pool gives a client nothing between a request and the client's 'drain' behind its answer.
  const emitter: EventEmitter = client
  const emit = emitter.emit.bind(client)
  emitter.emit = (event, ...args) => {
    const { life, socket } = line
    const restMs = event === 'drain' ? (life?.end() ?? 0) : 0
    if (restMs === 0) return emit(event, ...args)
    if (restMs === Infinity) socket?.destroy()
    const onRested = (): void => {
      if (restMs !== Infinity && life?.rested() === false) socket?.destroy()
      // What came meanwhile is read before the second immediate.
      setImmediate(setImmediate, () => emit(event, ...args))
    }
    setTimeout(onRested, restMs === Infinity ? 0 : restMs)
    return true
  }
  return client
}
