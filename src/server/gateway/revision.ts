/** Builds all that belongs to one configuration in one call; parts that would be equal are taken over from the one before. */
import type { Config } from '../../config/config.ts'
import { JwtVerifier } from '../../core/credentials/jwt-verifier.ts'
import type { LastingParts } from './lasting-parts.ts'
import { createRequestPolicy, type RequestPolicy } from './request-policy.ts'
import { upstreamFor, type Upstream } from './upstream.ts'

export class Revision {
  readonly config: Config
  readonly upstream: Upstream
  /** undefined: tokens are not accepted. */
  readonly verifier: JwtVerifier | undefined
  readonly policy: RequestPolicy

  /** Throws an Error that names key and file when a file for TLS, or jwt.jwksFile, cannot be used; then nothing of it is left. */
  constructor(config: Config, parts: LastingParts, before?: Revision) {
    this.config = config
    this.upstream = upstreamFor(config, parts.log, before?.upstream)
    try {
      const { upstream } = this
      this.verifier = verifierFor(config, parts, before?.verifier)
      this.policy = createRequestPolicy(config, parts, { upstream, verifier: this.verifier })
    } catch (error) {
      this.abandon(before)
      throw error
    }
  }

  /** Resolves when everything it needs is there; rejects where keys come from another place than before and are missing, as valid tokens would be refused. */
  async readyAfter(before: Revision): Promise<void> {
    const { upstream } = this
    await Promise.all([this.verifier?.ready(), upstream === before.upstream || upstream.ready()])
    const fault = this.verifier === before.verifier ? undefined : this.verifier?.fault
    if (fault === undefined) return
    const { jwksUri } = this.config.jwt ?? {}
    throw new Error(
      `jwt.jwksUri: no keys can be had from ${jwksUri} (${fault.cause}); see that it answers, then reload`,
    )
  }

  /** Closes the parts of a revision that was never in force, except those shared with `other`. */
  abandon(other: Revision | undefined): void {
    if (this.verifier !== other?.verifier) this.verifier?.close()
    if (this.upstream !== other?.upstream) this.upstream.close()
  }
}

/** Returns the verifier of `before` where a new one would be equal. */
function verifierFor(
  { jwt }: Config,
  { log, metrics }: LastingParts,
  before: JwtVerifier | undefined,
): JwtVerifier | undefined {
  if (jwt === undefined || before?.isFor(jwt) === true) return jwt && before
  return new JwtVerifier(jwt, {
    keySetFetched: (fault) => {
      metrics.keySetFetched(fault === undefined)
      if (fault !== undefined) log.keySetFailed({ cause: fault.cause })
    },
    unavailable: (reason) => metrics.credentialUnavailable(reason),
  })
}
