/** The backends of a configuration and all that carries requests to them: reused by a later configuration with the same settings. */
import { isDeepStrictEqual } from 'node:util'
import { createBackends } from '../../core/backends/backend.ts'
import { Balancer } from '../../core/backends/balancer.ts'
import { BackendChecks } from '../../core/backends/checks.ts'
import type { Config } from '../../config/config.ts'
import { DirectAttempt } from '../../core/forwarding/direct.ts'
import { Engine } from '../../core/forwarding/engine.ts'
import { ForwardedRequest, Handshake } from '../../core/forwarding/http-proxy-3.ts'
import type { UpgradeSink } from '../../core/forwarding/http-proxy-3.ts'
import { Retries } from '../../core/forwarding/retries.ts'
import type { LastingParts } from './lasting-parts.ts'
import { readBackendTls } from './tls-files.ts'

const engines = { direct: DirectAttempt, 'http-proxy-3': ForwardedRequest }

type Parts = Pick<LastingParts, 'log'>

/** All settings of an Upstream, the content of its files included. */
type Settings = ReturnType<typeof readSettings>

const readSettings = ({ upstream }: Config) => ({ upstream, tls: readBackendTls(upstream) })

/** Returns `before` itself where nothing differs. Throws an Error that names key, file and remedy when a file for TLS cannot be used. */
export function upstreamFor(config: Config, parts: Parts, before?: Upstream): Upstream {
  const settings = readSettings(config)
  if (before !== undefined && isDeepStrictEqual(before.settings, settings)) return before
  return new Upstream(settings, parts, before)
}

export class Upstream {
  readonly settings: Settings
  readonly balancer: Balancer
  readonly retries: Retries
  readonly engine: Engine
  readonly upgrades: Engine<UpgradeSink>
  /** Started while requests begin with it. */
  readonly checks: BackendChecks

  constructor(settings: Settings, { log }: Parts, before?: Upstream) {
    const { upstream, tls } = settings
    const backends = createBackends(upstream, tls, before?.balancer.backends)
    this.settings = settings
    this.balancer = new Balancer(backends, upstream, log)
    const { balancer } = this
    this.checks = new BackendChecks(balancer, upstream)
    this.retries = new Retries(upstream)
    this.engine = new Engine(engines[upstream.engine], upstream, balancer)
    this.upgrades = new Engine(Handshake, upstream, balancer)
  }

  /** No request begins with it any more; those under way, and tunnels, go on. */
  close(): void {
    this.checks.stop()
    this.upgrades.close()
    this.engine.close()
  }
}
