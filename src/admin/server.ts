/** The admin listener: metrics, liveness and readiness, on an address of its own and nothing else. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { isLoopback } from '../config/addresses.ts'
import type { ListenAddress } from '../config/config.ts'
import { refusalKinds } from '../rules/refusals.ts'
import { ConnectionSlots } from './connection-slots.ts'

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

export interface AdminServerOptions {
  readonly listen: ListenAddress
  /** Further names and addresses under which it is reached. */
  readonly hosts: readonly string[]
  readonly renderMetrics: () => Promise<{ contentType: string; body: string }>
  readonly readiness: () => ReadinessReport | Promise<ReadinessReport>
  /** Told when a page cannot be made; the caller gets a 500. */
  readonly onError: (error: unknown) => void
}

export type AdminServer = Awaited<ReturnType<typeof startAdminServer>>

interface Answer {
  readonly status: number
  readonly contentType: string
  readonly body: string
  readonly allow?: string
}

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
  const names = [options.listen.host, hostname(), ...options.hosts]
  if (!isOwnHost(request, names)) return foreignHost
  const path = request.url?.split('?', 1)[0] ?? ''
  const page = pages.get(path)
  if (page === undefined) return refusal('not_found')
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return { ...refusal('method_not_allowed'), allow: 'GET, HEAD' }
  try {
    return await page(options)
  } catch (error) {
    options.onError(error)
    const code = 'internal_error'
    return json(500, { code, message: 'The answer could not be made; see the log.', status: 500 })
  }
}

/**
 * Whether the request names this listener. A page of another site, whose name is made to point here (DNS rebinding),
 * sends that name as its Host. The address that was connected to is a name too. Ports are passed over, as they are often mapped.
 */
function isOwnHost({ headers, socket }: IncomingMessage, names: readonly string[]): boolean {
  // Left out by HTTP/1.0 alone, in which old load balancers probe and no browser speaks.
  if (headers.host === undefined) return true
  const [, ipv6, other] = /^(?:\[([^\]]+)\]|([^:]+))(?::\d*)?$/.exec(headers.host) ?? []
  const host = (ipv6 ?? other)?.toLowerCase()
  if (host === undefined) return false
  // An IPv4 connection to a listener of both families.
  const address = socket.localAddress?.replace(/^::ffff:/, '')
  return isLoopback(host) || host === address || names.some((name) => name.toLowerCase() === host)
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

function refusal(code: 'not_found' | 'method_not_allowed'): Answer {
  const { status, message } = refusalKinds[code]
  return json(status, { code, message, status })
}

const json = (status: number, value: object): Answer => ({
  status,
  contentType: 'application/json; charset=utf-8',
  body: `${JSON.stringify(value)}\n`,
})

const foreignHost = json(403, {
  code: 'foreign_host',
  message: 'This listener is not known by the name in Host; names can be added to admin.hosts.',
  status: 403,
})

function send(request: IncomingMessage, response: ServerResponse, made: Answer): void {
  const body = Buffer.from(made.body)
  response.writeHead(made.status, {
    'Content-Type': made.contentType,
    'Content-Length': body.length,
    'Cache-Control': 'no-store',
    ...(made.allow !== undefined && { Allow: made.allow }),
    // None of the pages takes a body, and one that nobody reads must not be taken for a request.
    ...(hasBody(request) && { Connection: 'close' }),
  })
  response.end(request.method === 'HEAD' ? undefined : body)
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
