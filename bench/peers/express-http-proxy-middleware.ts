/** express with http-proxy-middleware and two express-rate-limit on Redis, one after the other. */
import { Agent, createServer } from 'node:http'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { createProxyMiddleware } from 'http-proxy-middleware'
import { Redis } from 'ioredis'
import { RedisStore, type RedisReply } from 'rate-limit-redis'
import { clientLookup, listen, peerConfig } from './peer.ts'

const config = peerConfig()
const clientOf = clientLookup(config)
const redis = new Redis(config.redis, { enableAutoPipelining: config.pipelined })

const app = express()
app.disable('x-powered-by')
app.use((request, response, next) => {
  const client = clientOf(request.headers.authorization)
  if (client === undefined) {
    response
      .status(401)
      .set('WWW-Authenticate', 'Bearer')
      .json({ code: 401, message: 'Unknown API key' })
    return
  }
  delete request.headers.authorization
  request.headers['x-client-id'] = client
  request.headers['x-client-plan'] = config.plan
  next()
})
app.use(
  limiter({ prefix: 'day:', windowMs: 86_400_000, limit: config.limits.perDay, headers: false }),
)
app.use(
  limiter({ prefix: 'minute:', windowMs: 60_000, limit: config.limits.perMinute, headers: true }),
)
app.use(
  createProxyMiddleware({
    target: config.backend,
    agent: new Agent({ keepAlive: true, maxSockets: 128 }),
    xfwd: true,
  }),
)

/** Both would write the same X-RateLimit headers, so only one of them does. */
function limiter(options: {
  readonly prefix: string
  readonly windowMs: number
  readonly limit: number
  readonly headers: boolean
}) {
  return rateLimit({
    windowMs: options.windowMs,
    limit: options.limit,
    legacyHeaders: options.headers,
    standardHeaders: false,
    keyGenerator: (request) => request.get('x-client-id') ?? '',
    store: new RedisStore({
      prefix: options.prefix,
      sendCommand: (command: string, ...args: string[]) =>
        redis.call(command, ...args) as Promise<RedisReply>,
    }),
  })
}

listen('express', createServer(app))
