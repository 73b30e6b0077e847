/** Counts the requests of each client under way in this process; those beyond a client's limit wait in a line of its own. */

/** This is long enough for a burst to pass, short enough not to look like an answer that hangs. */
export const LONGEST_WAIT_MS = 250
const TICK_MS = 50
/** A line takes as many requests as may be under way, and at least as many as a client may send on one connection without waiting. */
const SHORTEST_LINE = 32
const CLIENTS_KEPT = 1_000

interface Waiting {
  readonly limit: number
  readonly untilMs: number
  decide(isTaken: boolean): void
}

/** The turns of one client. */
export class ClientTurns {
  #taken = 0
  /** Requests that wait, the first to come first. */
  readonly #line: Waiting[] = []

  get taken(): number {
    return this.#taken
  }

  get hasLine(): boolean {
    return this.#line.length > 0
  }

  /** Returns a promise when the request has to wait, and false at once when the line is full. */
  take(limit: number): boolean | Promise<boolean> {
    if (this.#taken < limit && !this.hasLine) {
      this.#taken++
      return true
    }
    if (this.#line.length >= Math.max(limit, SHORTEST_LINE)) return false
    const untilMs = performance.now() + LONGEST_WAIT_MS
    return new Promise((decide) => this.#line.push({ limit, untilMs, decide }))
  }

  /** Called once for each turn taken. */
  giveBack(): void {
    this.#taken--
    const next = this.#line[0]
    if (next === undefined || this.#taken >= next.limit) return
    this.#line.shift()
    this.#taken++
    next.decide(true)
  }

  refuseExpired(nowMs: number): void {
    while ((this.#line[0]?.untilMs ?? Infinity) <= nowMs) this.#line.shift()?.decide(false)
  }
}

export class TurnsOfClients {
  readonly #clients = new Map<string, ClientTurns>()
  #keptClients = CLIENTS_KEPT
  #lines: ClientTurns[] = []
  /** One timer for all lines; it runs while any request waits. */
  #timer: NodeJS.Timeout | undefined

  of(clientId: string): ClientTurns {
    const known = this.#clients.get(clientId)
    if (known !== undefined) return known
    if (this.#clients.size >= this.#keptClients) this.#forgetIdle()
    const client = new ClientTurns()
    this.#clients.set(clientId, client)
    return client
  }

  /** Requests of the client that are under way now. */
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
    for (const client of this.#lines) client.refuseExpired(nowMs)
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
