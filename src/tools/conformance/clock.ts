/** What time it is at the gateway, from the Date of its answers (RFC 9110 section 6.6.1): between two bounds. */
import type { Answer } from './connection.ts'
import { sleep, type Machine } from './machine.ts'
import { header } from './standing.ts'

/** Beside what is known, for a clock that is read for several answers at once. */
const GRAIN_MS = 50

export class GatewayClock {
  /** How far the gateway's clock is ahead of this machine's: at least, at most. */
  #least: number | undefined
  #most: number | undefined
  readonly #machine: Machine

  constructor(machine: Machine) {
    this.#machine = machine
  }

  note(answer: Answer): void {
    const dateMs = Date.parse(header(answer, 'date') ?? '')
    if (Number.isNaN(dateMs)) return
    this.#least = Math.max(this.#least ?? -Infinity, dateMs - answer.receivedMs)
    this.#most = Math.min(this.#most ?? Infinity, dateMs + 1_000 - answer.sentMs)
  }

  /** It is at least so late there. */
  earliest(atMs = this.#machine.now()): number {
    return atMs + (this.#least ?? 0)
  }

  /** It is at most so late there. */
  latest(atMs = this.#machine.now()): number {
    return atMs + Math.max(this.#most ?? 0, this.#least ?? 0)
  }

  /** Until it is surely so late there. */
  async passed(gatewayMs: number): Promise<void> {
    for (let left = 1; left > 0; left = gatewayMs + GRAIN_MS - this.earliest())
      await sleep(this.#machine, left)
  }

  /** Until shortly before it can be so late there; at once where it is later. */
  async before(gatewayMs: number): Promise<void> {
    await sleep(this.#machine, gatewayMs - this.latest())
  }
}
