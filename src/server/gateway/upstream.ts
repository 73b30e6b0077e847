/** The backends of a configuration and all that carries requests to them: reused by a later configuration with the same settings. */
import { isDeepStrictEqual } from 'node:util'
import { createBackends, type Backend } from '../../core/backends/backend.ts'
import { Balancer } from '../../core/backends/balancer.ts'
import { BackendChecks } from '../../core/backends/checks.ts'
import type { Config } from '../../config/config.ts'
import { DirectEngine } from '../../core/forwarding/direct.ts'
import type { Engine } from '../../core/forwarding/engine.ts'
import { HttpProxyEngine } from '../../core/forwarding/http-proxy-3.ts'
import { Retries } from '../../core/forwarding/retries.ts'
import { UpgradeEngine } from '../../core/forwarding/upgrader.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import type { OwnEnd } from '../../core/rules/websocket.ts'
import type { Log } from '../../core/record/log.ts'
import { readBackendTls } from './tls-files.ts'

const engines = { direct: DirectEngine, 'http-proxy-3': HttpProxyEngine }

/** All settings of an Upstream, the content of its files included. */
type Settings = ReturnType<typeof readSettings>

const readSettings = ({ upstream, server }: Config) => ({
  upstream,
  tunnelIdleMs: server.timeouts.tunnelIdleMs,
  tls: readBackendTls(upstream),
})

/** Returns `before` itself where nothing differs. Throws an Error that names key, file and remedy when a file for TLS cannot be used. */
export function upstreamFor(config: Config, log: Log, before?: Upstream): Upstream {
  const settings = readSettings(config)
  return before !== undefined && isDeepStrictEqual(before.settings, settings)
    ? before
    : new Upstream(settings, log, before)
}

export class Upstream {
  readonly settings: Settings
  readonly balancer: Balancer
  readonly retries: Retries
  readonly engine: Engine
  readonly upgrades: UpgradeEngine
  /** Started while requests begin with it. */
  readonly checks: BackendChecks

  constructor(settings: Settings, log: Log, before?: Upstream) {
    const { upstream, tunnelIdleMs, tls } = settings
    const backends = createBackends(upstream, tls, before?.balancer.backends)
    this.settings = settings
    this.balancer = new Balancer(backends, upstream, log)
    const { balancer } = this
    this.checks = new BackendChecks(balancer, upstream)
    this.retries = new Retries(upstream)
    this.engine = new engines[upstream.engine](upstream, balancer)
    this.upgrades = new UpgradeEngine(upstream, balancer, tunnelIdleMs)
  }

  /** Cuts tunnels and closes connections; no request is under way. */
  close(): void {
    this.checks.stop()
    this.upgrades.close()
    this.engine.close()
  }
}

/** All live upstreams: that of the configuration in force, and earlier ones that requests and tunnels still use. */
export class Upstreams {
  /** Written by use() alone. */
  current: Upstream
  readonly #retired = new Set<Upstream>()
  #isDraining = false

  constructor(first: Upstream) {
    this.current = first
    first.checks.start()
  }

  /** Backends of the current configuration, as is the next. */
  get backends(): readonly Backend[] {
    return this.current.balancer.backends
  }

  get waiting(): number {
    return this.current.balancer.waiting
  }

  /** Requests that begin after this call use `next`. */
  use(next: Upstream): void {
    const before = this.current
    if (before === next) return
    this.current = next
    next.checks.start()
    if (this.#isDraining) next.upgrades.drain()
    before.checks.stop()
    this.#retired.add(before)
  }

  /** Reviews all tunnels, as an UpgradeEngine does. */
  review(judge: (caller: Caller) => OwnEnd | undefined): void {
    for (const { upgrades } of this.#all()) upgrades.review(judge)
  }

  /** Closes retired upstreams that nothing uses any more. isNeeded: by a request under way, which may reach it late. */
  closeUnused(isNeeded: (upstream: Upstream) => boolean): void {
    for (const upstream of this.#retired) {
      if (!upstream.balancer.isIdle || isNeeded(upstream)) continue
      this.#retired.delete(upstream)
      upstream.close()
    }
  }

  /** Drains all tunnels, as an UpgradeEngine does. */
  drain(): void {
    this.#isDraining = true
    for (const { upgrades } of this.#all()) upgrades.drain()
  }

  close(): void {
    for (const upstream of this.#all()) upstream.close()
  }

  #all(): Upstream[] {
    return [this.current, ...this.#retired]
  }
}
