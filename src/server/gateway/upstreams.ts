/** All live upstreams: that of the configuration in force, and earlier ones that requests and tunnels still use. */
import type { Backend } from '../../core/backends/backend.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import type { OwnEnd } from '../../core/rules/websocket.ts'
import type { Upstream } from './upstream.ts'

const LOOK_EVERY_MS = 1_000

export class Upstreams {
  /** Written by use() alone. */
  current: Upstream
  readonly #retired = new Set<Upstream>()
  /** Runs while any upstream is retired. */
  #timer: NodeJS.Timeout | undefined
  #isDraining = false

  constructor(first: Upstream) {
    this.current = first
    first.begin()
  }

  /** Backends of the current configuration, as is the next. */
  get backends(): readonly Backend[] {
    return this.current.balancer.backends
  }

  get waiting(): number {
    return this.current.balancer.waiting
  }

  /** Requests that begin after this call use `next`. needed: upstreams of requests under way, which may reach theirs late. */
  use(next: Upstream, needed: () => ReadonlySet<object>): void {
    const before = this.current
    if (before === next) return
    this.current = next
    next.begin()
    if (this.#isDraining) next.upgrader.drain()
    before.retire()
    this.#retired.add(before)
    this.#timer ??= setInterval(() => this.#look(needed()), LOOK_EVERY_MS).unref()
  }

  /** Reviews all tunnels, as an UpgradeEngine does. */
  review(judge: (caller: Caller) => OwnEnd | undefined): void {
    for (const { upgrader } of this.#all()) upgrader.review(judge)
  }

  /** Drains all tunnels, as an UpgradeEngine does. */
  drain(): void {
    this.#isDraining = true
    for (const { upgrader } of this.#all()) upgrader.drain()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await Promise.all(this.#all().map((upstream) => upstream.close()))
  }

  #all(): Upstream[] {
    return [this.current, ...this.#retired]
  }

  #look(needed: ReadonlySet<object>): void {
    for (const upstream of this.#retired) {
      if (!upstream.isIdle || needed.has(upstream)) continue
      this.#retired.delete(upstream)
      void upstream.close()
    }
    if (this.#retired.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
