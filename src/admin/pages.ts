/** Pages of the admin listener besides its API. */
import { json, type Answer } from './answers.ts'

/** Ready means that every check is ok. */
export interface ReadinessReport {
  /** One entry per thing the gateway needs: configuration, listener, store, backend. */
  readonly checks: readonly {
    readonly name: string
    readonly ok: boolean
    readonly reason?: string
    /** Address of a store that others share. */
    readonly server?: string
    /** cause and since are those of a backend that is not up. */
    readonly backends?: readonly Record<'name' | 'state' | 'cause' | 'since', string | undefined>[]
    /** A fault that does not make this gateway useless. */
    readonly warning?: string
  }[]
}

export interface PageParts {
  readonly renderMetrics: () => Promise<{ contentType: string; body: string }>
  readonly readiness: () => ReadinessReport | Promise<ReadinessReport>
}

export const pages = new Map<string, (parts: PageParts) => Answer | Promise<Answer>>([
  ['/metrics', async ({ renderMetrics }) => ({ status: 200, ...(await renderMetrics()) })],
  // An answer is the whole check; what the process depends on belongs to /readyz.
  ['/healthz', () => json(200, { status: 'alive' })],
  [
    '/readyz',
    async ({ readiness }) => {
      const { checks } = await readiness()
      const ready = checks.every(({ ok }) => ok)
      return json(ready ? 200 : 503, { ready, checks })
    },
  ],
])
