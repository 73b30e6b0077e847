/** How many requests of each client are under way in this process; those beyond a client's limit wait in a line of its own. */

/** Long enough for a burst to pass, short enough not to look like an answer that hangs. */
export const LONGEST_WAIT_MS = 250
const TICK_MS = 50
/** A line takes as many as may be under way, and no fewer than a client may have sent on one connection without waiting. */
const SHORTEST_LINE = 32
const CLIENTS_KEPT = 1_000

interface Waiting {
  readonly limit: number
  readonly untilMs: number
  decide(isTaken: boolean): void
}

/** Of one client. */
export class ClientTurns {
  #taken = 0
  /** First come, first served. */
  readonly #line: Waiting[] = []

  get taken(): number {
    return this.#taken
  }

  get hasLine(): boolean {
    return this.#line.length > 0
  }

  /** Beyond the limit a promise, or false at once where the line is full. */
  take(limit: number): boolean | Promise<boolean> {
    if (this.#taken < limit && !this.hasLine) {
      this.#taken++
      return true
    }
    if (this.#line.length >= Math.max(limit, SHORTEST_LINE)) return false
    const untilMs = performance.now() + LONGEST_WAIT_MS
    return new Promise((decide) => this.#line.push({ limit, untilMs, decide }))
  }

  /** Once for each turn taken. */
  giveBack(): void {
    this.#taken--
    const next = this.#line[0]
    if (next === undefined || this.#taken >= next.limit) return
    this.#line.shift()
    this.#taken++
    next.decide(true)
  }

  sendAway(nowMs: number): void {
    while ((this.#line[0]?.untilMs ?? Infinity) <= nowMs) this.#line.shift()?.decide(false)
  }
}

export class TurnsOfClients {
  readonly #clients = new Map<string, ClientTurns>()
  #keptClients = CLIENTS_KEPT
  #lines: ClientTurns[] = []
  /** One for all who wait, while anybody does. */
  #timer: NodeJS.Timeout | undefined

  of(clientId: string): ClientTurns {
    const known = this.#clients.get(clientId)
    if (known !== undefined) return known
    if (this.#clients.size >= this.#keptClients) this.#forgetIdle()
    const client = new ClientTurns()
    this.#clients.set(clientId, client)
    return client
  }

  /** Under way now. */
  takenBy(clientId: string): number {
    return this.#clients.get(clientId)?.taken ?? 0
  }

  /** Whether a turn was taken, at once or after a wait. */
  take(client: ClientTurns, limit: number): boolean | Promise<boolean> {
    const turn = client.take(limit)
    if (turn instanceof Promise) {
      if (!this.#lines.includes(client)) this.#lines.push(client)
      this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref()
    }
    return turn
  }

  #tick(): void {
    const nowMs = performance.now()
    for (const client of this.#lines) client.sendAway(nowMs)
    this.#lines = this.#lines.filter(({ hasLine }) => hasLine)
    if (this.#lines.length > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #forgetIdle(): void {
    for (const [id, { taken }] of this.#clients) if (taken === 0) this.#clients.delete(id)
    this.#keptClients = Math.max(CLIENTS_KEPT, 2 * this.#clients.size)
  }
}
