/**
 * Bounds the connections of the admin listener. When all are taken, a new one closes the least useful: the oldest without a
 * request under way (a slow head is none), else the oldest whose client is slow to read an answer. A request that is being
 * answered is never cut off for another; each of them ends by itself. A connection with many unanswered requests is closed:
 * all their answers would be kept until the first is read.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { transportOf } from '../core/http/node-internals.ts'
import { hasBody } from './input.ts'

const transportOfRequest = ({ socket }: IncomingMessage): Socket =>
  socket instanceof TLSSocket ? transportOf(socket) : socket

type Use = 'idle' | 'answering' | 'reading'

const UNANSWERED_AT_MOST = 8

export class ConnectionSlots {
  readonly #most: number
  /** Connections in the order of their last change. Written by all methods. */
  readonly #uses = new Map<Socket, Use>()
  readonly #unanswered = new WeakMap<Socket, number>()

  constructor(most: number) {
    this.#most = most
  }

  /** Called for each new connection. */
  admit(socket: Socket): void {
    if (this.#uses.size >= this.#most) {
      const victim = this.#oldest('idle') ?? this.#oldest('reading') ?? socket
      victim.destroy()
      this.#uses.delete(victim)
      if (victim === socket) return
    }
    this.#uses.set(socket, 'idle')
    socket.once('close', () => this.#uses.delete(socket))
  }

  /** Closes all connections, including those in their handshake. */
  closeAll(): void {
    for (const socket of this.#uses.keys()) socket.destroy()
  }

  /** Notes a request, and returns what notes that its answer is ready, which the client may not have read yet; undefined: it must not be answered. Until its body has arrived, the connection counts as idle, as with a slow head. */
  answering(request: IncomingMessage, response: ServerResponse): (() => void) | undefined {
    const socket = transportOfRequest(request)
    const unanswered = (this.#unanswered.get(socket) ?? 0) + 1
    if (unanswered > UNANSWERED_AT_MOST) socket.destroy()
    if (socket.destroyed) return undefined
    this.#unanswered.set(socket, unanswered)
    response.once('close', () => {
      this.#unanswered.set(socket, (this.#unanswered.get(socket) ?? 1) - 1)
      if (this.#uses.get(socket) === 'reading') this.#change(socket, 'idle')
    })
    const begin = (): void => this.#change(socket, 'answering')
    if (hasBody(request)) request.once('end', begin)
    else begin()
    return () => {
      if (this.#uses.get(socket) === 'answering') this.#change(socket, 'reading')
    }
  }

  #change(socket: Socket, use: Use): void {
    if (this.#uses.delete(socket)) this.#uses.set(socket, use)
  }

  #oldest(wanted: Use): Socket | undefined {
    for (const [socket, use] of this.#uses) if (use === wanted) return socket
    return undefined
  }
}
