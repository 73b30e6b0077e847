/** The admin listener: metrics, liveness, readiness and the admin API, on an address of its own and nothing else. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { fault, json, methodNotAllowed, notFound, type Answer } from './answers.ts'
import { answerApi, type AdminApiParts } from './api.ts'
import { ConnectionSlots } from './connection-slots.ts'
import { isOwnHost, isOwnOrigin } from './own-names.ts'
import { hasBody } from './read-json.ts'

/** Ready means that every check is ok. */
export interface ReadinessReport {
  /** One entry per thing the gateway needs: configuration, listener, store, backend. */
  readonly checks: readonly {
    readonly name: string
    readonly ok: boolean
    readonly reason?: string
    /** Where it is, of a store that others share. */
    readonly server?: string
    /** cause, since: where it is not up. */
    readonly backends?: readonly Record<'name' | 'state' | 'cause' | 'since', string | undefined>[]
    /** A fault that does not make this gateway useless. */
    readonly warning?: string
  }[]
}

export interface AdminServerOptions extends AdminApiParts {
  readonly renderMetrics: () => Promise<{ contentType: string; body: string }>
  readonly readiness: () => ReadinessReport | Promise<ReadinessReport>
  /** Told when a page cannot be made; the caller gets a 500. */
  readonly onError: (error: unknown) => void
}

export type AdminServer = Awaited<ReturnType<typeof startAdminServer>>

const CLOSE_AFTER_MS = 1_000
/** Probes, scrapers and a few people. */
const MAX_CONNECTIONS = 128

/** Rejects if the address cannot be listened on. */
export async function startAdminServer(options: AdminServerOptions) {
  const slots = new ConnectionSlots(MAX_CONNECTIONS)
  const server = createServer(
    {
      maxHeaderSize: 8 * 1024,
      headersTimeout: 5_000,
      requestTimeout: 10_000,
      keepAliveTimeout: 15_000,
      connectionsCheckingInterval: 1_000,
    },
    (request, response) => {
      slots.answering(request)
      void answer(options, request).then((made) => {
        send(request, response, made)
        slots.answered(request, response)
      })
    },
  )
  server.on('connection', (socket) => slots.admit(socket))
  server.listen({ ...options.listen })
  await once(server, 'listening')
  server.on('error', options.onError)
  const { address: host, port } = server.address() as AddressInfo
  return {
    /** Where it really listens, with the port that port 0 became. */
    address: { host, port },
    /** Lets answers under way end, for up to a second. */
    async close(): Promise<void> {
      const cut = setTimeout(() => server.closeAllConnections(), CLOSE_AFTER_MS)
      await once(server.close(), 'close')
      clearTimeout(cut)
    },
  }
}

/** Never rejects: whatever fails inside becomes a 500. */
async function answer(options: AdminServerOptions, request: IncomingMessage): Promise<Answer> {
  const { hosts } = options.reloads.config.admin
  if (!isOwnHost(request, [options.listen.host, hostname(), ...hosts])) return foreignHost
  if (!isOwnOrigin(request, hosts)) return foreignOrigin
  const path = request.url?.split('?', 1)[0] ?? ''
  try {
    if (path.startsWith('/api/')) return await answerApi(options, request, path)
    const page = pages.get(path)
    if (page === undefined) return notFound
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    return isRead ? await page(options) : methodNotAllowed('GET, HEAD')
  } catch (error) {
    options.onError(error)
    const code = 'internal_error'
    return json(500, { code, message: 'The answer could not be made; see the log.', status: 500 })
  }
}

const pages = new Map<string, (options: AdminServerOptions) => Answer | Promise<Answer>>([
  ['/metrics', async ({ renderMetrics }) => ({ status: 200, ...(await renderMetrics()) })],
  // That this process answers at all is the whole of it: what it depends on belongs to /readyz.
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

const foreignHost = fault({
  code: 'foreign_host',
  message: 'This listener is not known by the name in Host; names can be added to admin.hosts.',
  status: 403,
})

const foreignOrigin = fault({
  code: 'foreign_origin',
  message: 'Pages of other origins may not ask here; names can be added to admin.hosts.',
  status: 403,
})

function send(request: IncomingMessage, response: ServerResponse, made: Answer): void {
  const body = Buffer.from(made.body)
  response.writeHead(made.status, {
    'Content-Type': made.contentType,
    'Content-Length': body.length,
    'Cache-Control': 'no-store',
    ...made.fields,
    // A body that nobody has read must not be taken for a request.
    ...(hasBody(request) && { Connection: 'close' }),
  })
  response.end(request.method === 'HEAD' ? undefined : body)
}
