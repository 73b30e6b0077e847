/**
 * Counts the calls of deprecated routes by client and user agent. The busiest callers are kept; of the others only the sum of
 * their calls.
 */

interface DeprecatedCall {
  readonly route: string
  readonly client: string
  /** The beginning of the user agent, in visible ASCII. */
  readonly userAgent: string
  readonly count: number
  /** Unix time in ms. */
  readonly lastSeenMs: number
}

/** Plain data. */
export interface DeprecatedCalls {
  readonly calls: readonly DeprecatedCall[]
  /** Calls by clients that are not kept. */
  readonly others: number
}

/**
 * The table is cut to this many clients when it has GROWTH times as many: sorting after every thousand new ones would delay all
 * requests.
 */
const KEPT_CLIENTS = 1_000
const GROWTH = 8
/** User agents kept per client and route, so that a client that changes its own with each request displaces no others. */
const AGENTS = 8
const OTHER_AGENTS = '(others)'
const NO_AGENT = '(none)'
const AGENT_LENGTH = 100

interface Client {
  readonly route: string
  readonly agents: Map<string, { -readonly [Name in keyof DeprecatedCall]: DeprecatedCall[Name] }>
  count: number
}

export class DeprecatedCallers {
  /** Keyed by route and client. */
  readonly #clients = new Map<string, Client>()
  #others = 0

  /** userAgent: as it was sent. */
  called(route: string, client: string, userAgent = '', nowMs: number): void {
    this.#count({ route, client, userAgent: clean(userAgent), count: 1, lastSeenMs: nowMs })
  }

  add({ calls, others }: DeprecatedCalls): void {
    for (const call of calls) this.#count(call)
    this.#others += others
  }

  /** Removes and returns the calls since the last take; undefined: there were none. */
  take(): DeprecatedCalls | undefined {
    if (this.#clients.size === 0) return undefined
    // The result is sent to another process and has to stay small.
    if (this.#clients.size > 2 * KEPT_CLIENTS) this.#cut()
    const taken = this.busiest()
    this.#clients.clear()
    this.#others = 0
    return taken
  }

  /** Returns at most `atMost` callers, the busiest first. */
  busiest(atMost = Infinity): DeprecatedCalls {
    const calls = [...this.#clients.values()]
      .flatMap(({ agents }) => [...agents.values()])
      .sort((one, other) => other.count - one.count)
    const unlisted = calls.slice(atMost).reduce((sum, { count }) => sum + count, 0)
    return { calls: calls.slice(0, atMost), others: this.#others + unlisted }
  }

  /** How many clients are known to call each route. */
  clientsByRoute(): ReadonlyMap<string, number> {
    const clients = new Map<string, number>()
    for (const { route } of this.#clients.values())
      clients.set(route, (clients.get(route) ?? 0) + 1)
    return clients
  }

  #count(call: DeprecatedCall): void {
    const { route, client, userAgent, count, lastSeenMs } = call
    const key = `${route} ${client}`
    let known = this.#clients.get(key)
    if (known === undefined) {
      if (this.#clients.size >= GROWTH * KEPT_CLIENTS) this.#cut()
      this.#clients.set(key, (known = { route, agents: new Map(), count: 0 }))
    }
    known.count += count
    const { agents } = known
    const room = agents.has(OTHER_AGENTS) ? AGENTS + 1 : AGENTS
    const agent = agents.has(userAgent) || agents.size < room ? userAgent : OTHER_AGENTS
    const seen = agents.get(agent)
    if (seen === undefined) return void agents.set(agent, { ...call, userAgent: agent })
    seen.count += count
    seen.lastSeenMs = Math.max(seen.lastSeenMs, lastSeenMs)
  }

  /** Removes the clients with the fewest calls. */
  #cut(): void {
    const least = [...this.#clients].sort(([, one], [, other]) => other.count - one.count)
    for (const [key, { count }] of least.slice(KEPT_CLIENTS)) {
      this.#clients.delete(key)
      this.#others += count
    }
  }
}

function clean(userAgent: string): string {
  if (userAgent === '') return NO_AGENT
  return userAgent.slice(0, AGENT_LENGTH).replace(/[^ -~]/g, '?')
}
