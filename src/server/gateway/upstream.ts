/** The backends of a configuration and all that carries requests to them: reused by a later configuration with the same settings. */
import { isDeepStrictEqual } from 'node:util'
import { createBackends } from '../../core/backends/backend.ts'
import { Balancer } from '../../core/backends/balancer.ts'
import { checkNewcomers, startHealthChecks } from '../../core/backends/checks.ts'
import { createBackendProbe, type BackendProbe } from '../../core/backends/probe.ts'
import type { Config } from '../../config/config.ts'
import { Forwarder } from '../../core/forwarding/attempts.ts'
import { createDirectEngine } from '../../core/forwarding/direct/forwarder.ts'
import { createHttpProxyEngine } from '../../core/forwarding/http-proxy-3/forwarder.ts'
import { Retries } from '../../core/forwarding/retries.ts'
import { createUpgradeEngine } from '../../core/forwarding/upgrader.ts'
import { createUpgrader, type Upgrader } from '../../core/forwarding/upgrades.ts'
import type { LastingParts } from './lasting-parts.ts'
import { readBackendTls } from './tls-files.ts'

const engines = { direct: createDirectEngine, 'http-proxy-3': createHttpProxyEngine }

/** All settings of an Upstream, the content of its files included. */
type Settings = ReturnType<typeof readSettings>

const readSettings = ({ upstream, server }: Config) => ({
  upstream,
  tunnelIdleMs: server.timeouts.tunnelIdleMs,
  tls: readBackendTls(upstream),
})

/** Returns `before` itself where nothing differs. Throws an Error that names key, file and remedy when a file for TLS cannot be used. */
export function upstreamFor(
  config: Config,
  parts: Pick<LastingParts, 'log'>,
  before?: Upstream,
): Upstream {
  const settings = readSettings(config)
  return before !== undefined && isDeepStrictEqual(before.settings, settings)
    ? before
    : new Upstream(settings, parts.log, before)
}

export class Upstream {
  readonly settings: Settings
  readonly balancer: Balancer
  readonly forwarder: Forwarder
  readonly upgrader: Upgrader
  /** Probe for readiness. */
  readonly probe: BackendProbe
  #checks: { stop(): void } | undefined

  /** Connects to nothing before begin(). */
  constructor(settings: Settings, log: LastingParts['log'], before?: Upstream) {
    const { upstream, tunnelIdleMs, tls } = settings
    const backends = createBackends(upstream, tls, before?.balancer.backends)
    this.settings = settings
    this.balancer = new Balancer(backends, upstream, {
      down: (line) => log.backendDown(line),
      up: (line) => log.backendUp(line),
      surplus: (line) => log.backendSurplus(line),
    })
    const { balancer } = this
    const retries = new Retries(upstream)
    this.probe = createBackendProbe(balancer, upstream)
    const engine = engines[upstream.engine]({
      ...upstream,
      onSurplus: (backend) => balancer.surplus(backend),
    })
    this.forwarder = new Forwarder(balancer, retries, engine)
    this.upgrader = createUpgrader({
      balancer,
      retries,
      engine: createUpgradeEngine(upstream, tunnelIdleMs),
      longestWaitMs: upstream.timeouts.responseMs,
    })
  }

  /** Resolves when its backends without a known state were checked, or their time to answer is up; never rejects. */
  async ready(): Promise<void> {
    const { health, host } = this.settings.upstream
    if (health) await checkNewcomers(this.balancer, health, host)
  }

  /** Applies its settings, and starts its health checks. */
  begin(): void {
    const { eject, health, host } = this.settings.upstream
    const nowMs = performance.now()
    for (const { standing } of this.balancer.backends) standing.use(eject, health, nowMs)
    this.#checks = health && startHealthChecks(this.balancer, health, host)
  }

  /** Ends its health checks: no request begins with it any more. */
  retire(): void {
    this.#checks?.stop()
  }

  /** Whether no request and no tunnel is under way on it. */
  get isIdle(): boolean {
    return this.forwarder.underWay === 0 && this.upgrader.underWay === 0
  }

  /** Waits for requests under way, cuts tunnels, closes connections. */
  async close(): Promise<void> {
    this.retire()
    await Promise.allSettled([this.forwarder.close(), this.upgrader.close()])
  }
}
