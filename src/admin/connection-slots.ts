/**
 * Who may hold a connection of the admin listener. When all are taken, the one of least use is closed for a new one: the
 * oldest that has no request under way (a slow head is none), else the oldest that takes its time to read an answer. A
 * request that is being answered is never cut off for another; each of them ends by itself.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

export class ConnectionSlots {
  readonly #most: number
  /** Each in one of the three, or closed for another; oldest first. Written by admit, answering, answered and #leave. */
  readonly #idle = new Set<Socket>()
  readonly #reading = new Set<Socket>()
  readonly #answering = new Set<Socket>()

  constructor(most: number) {
    this.#most = most
  }

  /** For each new connection. */
  admit(socket: Socket): void {
    this.#idle.add(socket)
    socket.once('close', () => this.#leave(socket))
    if (this.#idle.size + this.#reading.size + this.#answering.size <= this.#most) return
    // The new one is the youngest of the idle: refused only when all the others are being answered.
    const [spare, hasOther] = this.#idle
    const [slow] = this.#reading
    const victim = hasOther === undefined ? (slow ?? spare) : spare
    if (victim === undefined) return
    this.#leave(victim)
    victim.destroy()
  }

  /** A request is there whole. */
  answering({ socket }: IncomingMessage): void {
    this.#leave(socket)
    this.#answering.add(socket)
  }

  /** All of the answer was written; the client may not have read it yet. */
  answered({ socket }: IncomingMessage, response: ServerResponse): void {
    if (!this.#answering.delete(socket)) return
    this.#reading.add(socket)
    response.once('close', () => {
      if (this.#reading.delete(socket)) this.#idle.add(socket)
    })
  }

  #leave(socket: Socket): void {
    this.#idle.delete(socket)
    this.#reading.delete(socket)
    this.#answering.delete(socket)
  }
}
