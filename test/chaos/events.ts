/** What is written down of a run: by the clients, by the backends, and by who plays the faults. Times are Unix times in ms. */

export const faultKinds = {
  store: ['store frozen', 'store restarted', 'store failed over'],
  gateway: ['gateway frozen', 'worker killed', 'gateway killed', 'gateway restarted'],
  backend: ['backend hangs', 'backend dies', 'backend breaks', 'backend slow', 'backend busy'],
  clients: ['flood', 'slow crowd'],
} as const
export type FaultLane = keyof typeof faultKinds
export type FaultKind = (typeof faultKinds)[FaultLane][number]

export interface Fault {
  readonly kind: FaultKind
  /** The gateway or backend that it happened to; '' where there is one only. */
  readonly part: string
  readonly fromMs: number
  /** When the part was whole again. */
  readonly untilMs: number
}

export interface ChaosClient {
  readonly id: string
  readonly perMinute: number
  /** Far below its limit, at a steady pace, obeying all it is told: nothing that others do may be felt by it. */
  readonly isBystander: boolean
  /** Calls no gateway that is ever killed: its counters leave no room. */
  readonly meetsNoKill: boolean
}

export interface Answered {
  readonly kind: 'answered'
  readonly status: number
  /** `code` of the gateway's own Error; undefined: a backend's answer. */
  readonly code: string | undefined
  /** Whether a backend's answer is the one to this request, to its last byte. */
  readonly isOwn: boolean
  readonly requestId: string | undefined
  readonly limit: number | undefined
  readonly remaining: number | undefined
  /** X-RateLimit-Reset, in Unix seconds. */
  readonly resetSeconds: number | undefined
  readonly retryAfterSeconds: number | undefined
}
export type Outcome =
  | Answered
  /** The connection ended too early; status: of the answer that had begun. */
  | { readonly kind: 'cut'; readonly status: number | undefined; readonly cause: string }
  /** The client ended it, as it meant to. */
  | { readonly kind: 'left' }

export interface ChaosRequest {
  readonly number: number
  readonly client: string
  readonly method: 'GET' | 'POST'
  readonly gateway: string
  /** slow: it sends or reads slowly, and may leave. tunnel: a WebSocket. */
  readonly manner: 'plain' | 'slow' | 'tunnel'
  readonly sentMs: number
  endMs: number | undefined
  /** Every one that came: there must be exactly one. */
  readonly outcomes: Outcome[]
}

export interface Sighting {
  readonly number: number
  readonly backend: string
  readonly method: string
  readonly client: string
  readonly atMs: number
  /** undefined: the body did not come to its end. */
  body: 'whole' | 'wrong' | undefined
}

/** What Redis has of a client. */
export interface Counted {
  readonly dayTaken: number
  readonly dayUsed: number
}

export interface Run {
  readonly clients: readonly ChaosClient[]
  readonly requests: readonly ChaosRequest[]
  readonly sightings: readonly Sighting[]
  readonly faults: readonly Fault[]
  /** Calls past the gateways, to a backend that nobody else calls. */
  readonly past: readonly { readonly sentMs: number; readonly endMs: number }[]
  /** By client, when all gateways have stopped. */
  readonly counted: ReadonlyMap<string, Counted>
}
