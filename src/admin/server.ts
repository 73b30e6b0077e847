/** The admin listener: metrics, liveness, readiness and the admin API, on an address of its own. */
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import type { AdminConfig, ListenAddress } from '../config/config.ts'
import { METRICS_TYPE } from '../core/record/metric-registry.ts'
import { fault, json, methodNotAllowed, type Answer } from './answers.ts'
import { answerApi } from './api.ts'
import { callerOf, isOwnHost, isOwnOrigin } from './authentication.ts'
import { ConnectionSlots, WayIn, type AdminIdentity } from './connections.ts'
import { pageAsset } from './page-assets.ts'
import type { ApiNeeds } from './operation.ts'
import type { ReadinessReport } from './readiness.ts'
import { send } from './send.ts'

export interface AdminServerOptions extends ApiNeeds {
  readonly renderMetrics: () => Promise<string>
  readonly readiness: () => ReadinessReport | Promise<ReadinessReport>
  readonly listen: ListenAddress
  /** Certificate and key for TLS; undefined: no TLS. */
  readonly identity: AdminIdentity | undefined
}

export type AdminServer = Awaited<ReturnType<typeof startAdminServer>>

const CLOSE_AFTER_MS = 1_000

/** Rejects if the address cannot be listened on. */
export async function startAdminServer(given: AdminServerOptions) {
  const options = { ...given, openMetrics: onceASecond(given.renderMetrics) }
  const slots = new ConnectionSlots()
  const server = createServer(
    {
      maxHeaderSize: 8 * 1024,
      headersTimeout: 5_000,
      requestTimeout: 10_000,
      keepAliveTimeout: 15_000,
      connectionsCheckingInterval: 1_000,
    },
    (request, response) => {
      const ready = slots.answering(request, response)
      if (ready === undefined) return
      void answer(options, request, way.certifiedName(request)).then((made) => {
        void send(request, response, { made, onError: options.log.adminFailed })
        ready()
      })
    },
  )
  const way = new WayIn(server, slots, options.identity)
  server.listen({ ...options.listen })
  await once(server, 'listening')
  server.on('error', options.log.adminFailed)
  let token = options.reloads.config.admin.tokenSha256
  const { address: host, port } = server.address() as AddressInfo
  return {
    /** Actual address, with the port that was chosen for port 0. */
    address: { host, port },
    /** Changes TLS and the token for new connections; identity undefined: no TLS. */
    use(identity: AdminIdentity | undefined, { tokenSha256 }: AdminConfig): void {
      const isChanged = way.use(identity) || tokenSha256 !== token
      token = tokenSha256
      // Readers of events must authenticate again.
      if (isChanged) options.live.events.end()
    },
    /** Gives answers under way up to a second to end. */
    async close(): Promise<void> {
      const cut = setTimeout(() => slots.closeAll(), CLOSE_AFTER_MS)
      await once(server.close(), 'close')
      clearTimeout(cut)
    },
  }
}

const metricsPage = (body: string): Answer => ({ status: 200, contentType: METRICS_TYPE, body })

/** Pages besides the API and the operators' page. */
const pages = new Map<string, (parts: AdminServerOptions) => Answer | Promise<Answer>>([
  ['/metrics', async ({ renderMetrics }) => metricsPage(await renderMetrics())],
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

/** Makes a page at most once a second: anybody may request it, and making it holds up requests. */
function onceASecond<Page>(make: () => Promise<Page>): () => Promise<Page> {
  let latest: { readonly page: Promise<Page>; readonly atMs: number } | undefined
  return () => {
    const nowMs = performance.now()
    if (latest === undefined || nowMs - latest.atMs >= 1_000) latest = { page: make(), atMs: nowMs }
    return latest.page
  }
}

/** Never rejects: whatever fails inside becomes a 500. */
async function answer(
  options: AdminServerOptions & {
    /** The metrics for callers without a credential. */
    openMetrics(): ReturnType<AdminServerOptions['renderMetrics']>
  },
  request: IncomingMessage,
  certified: string | undefined,
): Promise<Answer> {
  const { admin } = options.reloads.config
  const { hosts, openMetrics } = admin
  const refused = !isOwnHost(request, [options.listen.host, hostname(), ...hosts])
    ? fault('foreign_host')
    : isOwnOrigin(request, hosts)
      ? undefined
      : fault('foreign_origin')
  const path = request.url?.split('?', 1)[0] ?? ''
  // Node.js keeps the first of several Host fields; a proxy may have used another (RFC 9112, section 3.2).
  if ((request.headersDistinct['host']?.length ?? 0) > 1)
    return fault('invalid_request', {
      message: 'The request has several Host fields.',
      fields: { Connection: 'close' },
    })
  try {
    const caller = refused ?? callerOf(admin, request, certified)
    if (path.startsWith('/api/')) return await answerApi(options, request, caller)
    if (refused !== undefined) return refused
    if (path === '/metrics' && typeof caller !== 'string')
      return openMetrics ? metricsPage(await options.openMetrics()) : caller
    const asset = pageAsset(request, path)
    if (asset !== undefined) return asset
    const page = pages.get(path)
    if (page === undefined) return fault('not_found')
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    return isRead ? await page(options) : methodNotAllowed('GET, HEAD')
  } catch (error) {
    options.log.adminFailed(error)
    return fault('internal_error')
  }
}
