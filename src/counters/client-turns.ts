/** How many requests of each client are under way in this process; those beyond a client's limit wait in a line of its own. */

/** Long enough for a burst to pass, short enough not to look like an answer that hangs. */
const LONGEST_WAIT_MS = 250
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

  get isIdle(): boolean {
    return this.#taken === 0
  }

  get hasLine(): boolean {
    return this.#line.length > 0
  }

  /** False beyond the limit, or while others wait. */
  take(limit: number): boolean {
    if (this.#taken >= limit || this.hasLine) return false
    this.#taken++
    return true
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

  /** False at once when the line is full. */
  wait(limit: number, nowMs: number): boolean | Promise<boolean> {
    if (this.#line.length >= Math.max(limit, SHORTEST_LINE)) return false
    const untilMs = nowMs + LONGEST_WAIT_MS
    return new Promise((decide) => this.#line.push({ limit, untilMs, decide }))
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

  get size(): number {
    return this.#clients.size
  }

  of(clientId: string): ClientTurns {
    const known = this.#clients.get(clientId)
    if (known !== undefined) return known
    if (this.#clients.size >= this.#keptClients) this.#forgetIdle()
    const client = new ClientTurns()
    this.#clients.set(clientId, client)
    return client
  }

  /** Whether a turn was taken, at once or after a wait. */
  take(client: ClientTurns, limit: number): boolean | Promise<boolean> {
    if (client.take(limit)) return true
    const hadLine = client.hasLine
    const turn = client.wait(limit, performance.now())
    if (!hadLine && client.hasLine) this.#lines.push(client)
    if (client.hasLine) this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref()
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
    for (const [id, { isIdle }] of this.#clients) if (isIdle) this.#clients.delete(id)
    this.#keptClients = Math.max(CLIENTS_KEPT, 2 * this.#clients.size)
  }
}
