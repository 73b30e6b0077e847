/**
 * Who may hold a connection of the admin listener. When all are taken, the one of least use is closed for a new one: the
 * oldest that has no request under way (a slow head is none), else the oldest that takes its time to read an answer. A
 * request that is being answered is never cut off for another; each of them ends by itself.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

type Use = 'idle' | 'answering' | 'reading'

export class ConnectionSlots {
  readonly #most: number
  /** In the order of the last change. Written by all methods. */
  readonly #uses = new Map<Socket, Use>()

  constructor(most: number) {
    this.#most = most
  }

  /** For each new connection. */
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

  /** A request is there whole. */
  answering({ socket }: IncomingMessage): void {
    this.#change(socket, 'answering')
  }

  /** All of the answer was written; the client may not have read it yet. */
  answered({ socket }: IncomingMessage, response: ServerResponse): void {
    if (this.#uses.get(socket) === 'answering') this.#change(socket, 'reading')
    response.once('close', () => {
      if (this.#uses.get(socket) === 'reading') this.#change(socket, 'idle')
    })
  }

  #change(socket: Socket, use: Use): void {
    if (this.#uses.delete(socket)) this.#uses.set(socket, use)
  }

  #oldest(wanted: Use): Socket | undefined {
    for (const [socket, use] of this.#uses) if (use === wanted) return socket
    return undefined
  }
}
