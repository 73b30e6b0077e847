/** fastify with @fastify/http-proxy and @fastify/rate-limit on Redis: the plugin keeps one window per route, here the minute. */
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import httpProxy from '@fastify/http-proxy'
import rateLimit from '@fastify/rate-limit'
import Fastify from 'fastify'
import { Redis } from 'ioredis'
import { announce, endWithBench } from '../own-process.ts'
import type { FastifyConfig } from '../subjects.ts'

declare module 'fastify' {
  interface FastifyRequest {
    client: string
  }
}

const file = process.argv[2]
if (file === undefined) throw new Error('usage: fastify-http-proxy.ts CONFIG.json')
const config = JSON.parse(readFileSync(file, 'utf8')) as FastifyConfig

/** No key is kept, only digests. */
const ids = new Map(config.clients.map(({ id, sha256 }) => [sha256, id]))
const clientOf = (authorization = ''): string | undefined =>
  ids.get(hash('sha256', /^Bearer (\S+)$/i.exec(authorization)?.[1] ?? ''))

const app = Fastify({ logger: false })
app.decorateRequest('client', '')
// A hook of the application runs before that of the limiter, which belongs to the route.
app.addHook('onRequest', (request, reply, done) => {
  const client = clientOf(request.headers.authorization)
  if (client === undefined) {
    void reply
      .code(401)
      .header('WWW-Authenticate', 'Bearer')
      .send({ code: 401, message: 'Unknown API key' })
    return
  }
  request.client = client
  done()
})
await app.register(rateLimit, {
  redis: new Redis(config.redis, {
    connectTimeout: 500,
    maxRetriesPerRequest: 1,
    enableAutoPipelining: true,
  }),
  max: config.limits.perMinute,
  timeWindow: 60_000,
  keyGenerator: (request) => request.client,
})
await app.register(httpProxy, {
  upstream: config.backend,
  prefix: '/v1',
  rewritePrefix: '/v1',
  disableRequestLogging: true,
  undici: { connections: 128, pipelining: 1 },
  replyOptions: {
    rewriteRequestHeaders: (request, headers) => {
      const { authorization: _, ...passedOn } = headers
      return {
        ...passedOn,
        'x-client-id': request.client,
        'x-client-plan': config.plan,
        'x-forwarded-for': request.ip,
      }
    },
  },
})

endWithBench()
await app.listen({ host: '127.0.0.1', port: 0 })
announce('server', app.server)
