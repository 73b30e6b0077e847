/** Bounds the time at the gateway by the Date of its answers (RFC 9110 section 6.6.1). */
import type { Answer } from './connection.ts'
import { sleep, type Machine } from './machine.ts'
import { header } from './standing.ts'

/** Margin for a gateway that reads its clock once for several answers. */
const MARGIN_MS = 50

export class GatewayClock {
  /** Bounds, in ms, of how far the gateway's clock is ahead of this machine's. */
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

  /** The earliest Unix time in ms that the gateway's clock may show. */
  earliest(atMs = this.#machine.now()): number {
    return atMs + (this.#least ?? 0)
  }

  /** The latest Unix time in ms that the gateway's clock may show. */
  latest(atMs = this.#machine.now()): number {
    return atMs + Math.max(this.#most ?? 0, this.#least ?? 0)
  }

  /** Resolves once the gateway's clock has certainly reached this time. */
  async passed(gatewayMs: number): Promise<void> {
    for (let left = 1; left > 0; left = gatewayMs + MARGIN_MS - this.earliest())
      await sleep(this.#machine, left)
  }

  /** Resolves shortly before the gateway's clock can reach this time; at once if it may have. */
  async before(gatewayMs: number): Promise<void> {
    await sleep(this.#machine, gatewayMs - this.latest())
  }
}
