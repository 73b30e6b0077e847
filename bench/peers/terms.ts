/** Whom a peer lets through, and how often. */
export interface PeerTerms {
  readonly plan: string
  readonly limits: { readonly perMinute: number; readonly perDay: number }
  /** sha256: of the key, 64 hex digits. */
  readonly clients: readonly { readonly id: string; readonly sha256: string }[]
}

export interface FastifyConfig extends PeerTerms {
  /** Scheme, host and port. */
  readonly backend: string
  readonly redis: string
}
