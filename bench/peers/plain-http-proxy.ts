/** The plain wiring: the same packages put together as their READMEs show, key check, two windows, headers and metrics. */
import { Agent, createServer, type ServerResponse } from 'node:http'
import { createProxyServer } from 'http-proxy-3'
import { Redis } from 'ioredis'
import { Counter, Histogram, register } from 'prom-client'
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { clientLookup, listen, peerConfig } from './peer.ts'

const config = peerConfig()
const clientOf = clientLookup(config)

const redis = new Redis(config.redis, { enableAutoPipelining: config.pipelined })
const minute = new RateLimiterRedis({
  storeClient: redis,
  keyPrefix: 'minute',
  points: config.limits.perMinute,
  duration: 60,
})
const day = new RateLimiterRedis({
  storeClient: redis,
  keyPrefix: 'day',
  points: config.limits.perDay,
  duration: 86_400,
})

const duration = new Histogram({
  name: 'http_request_duration_seconds',
  help: 'Duration of requests',
  labelNames: ['method', 'route', 'plan', 'status'],
})
const requests = new Counter({
  name: 'http_requests_total',
  help: 'Requests',
  labelNames: ['method', 'route', 'plan', 'status'],
})

const { hostname, port } = new URL(config.backend)
const proxy = createProxyServer({
  target: { protocol: 'http:', host: hostname, port: Number(port) },
  agent: new Agent({ keepAlive: true, maxSockets: 128 }),
  xfwd: true,
})
proxy.on('error', (_error, _request, response) => {
  if ('writeHead' in response && !response.headersSent)
    sendError(response, 502, 'The backend could not be reached')
  else response.destroy()
})

const server = createServer((request, response) => {
  const startedMs = performance.now()
  response.once('finish', () => {
    const labels = {
      method: request.method ?? '',
      route: 'pets',
      plan: config.plan,
      status: String(response.statusCode),
    }
    duration.observe(labels, (performance.now() - startedMs) / 1000)
    requests.inc(labels)
  })
  if (request.url === '/metrics') {
    void register.metrics().then((text) => response.end(text))
    return
  }
  const client = clientOf(request.headers.authorization)
  if (client === undefined) {
    response.setHeader('WWW-Authenticate', 'Bearer')
    sendError(response, 401, 'Unknown API key')
    return
  }
  void limit(client, response).then((admitted) => {
    if (!admitted) return
    delete request.headers.authorization
    request.headers['x-client-id'] = client
    request.headers['x-client-plan'] = config.plan
    proxy.web(request, response)
  })
})

/** Charges both windows, sets the headers, and answers 429 or 503 itself where it resolves to false. */
async function limit(client: string, response: ServerResponse): Promise<boolean> {
  try {
    const results = await Promise.all([minute.consume(client), day.consume(client)])
    const [inMinute, inDay] = results
    if (inMinute.remainingPoints <= inDay.remainingPoints)
      setQuotaHeaders(response, config.limits.perMinute, inMinute)
    else setQuotaHeaders(response, config.limits.perDay, inDay)
    return true
  } catch (rejection) {
    if (!(rejection instanceof RateLimiterRes)) {
      sendError(response, 503, 'The limiter is unavailable')
      return false
    }
    setQuotaHeaders(response, config.limits.perMinute, rejection)
    response.setHeader('Retry-After', Math.ceil(rejection.msBeforeNext / 1000))
    sendError(response, 429, 'Too many requests')
    return false
  }
}

function setQuotaHeaders(response: ServerResponse, points: number, result: RateLimiterRes): void {
  response.setHeader('X-RateLimit-Limit', points)
  response.setHeader('X-RateLimit-Remaining', result.remainingPoints)
  response.setHeader('X-RateLimit-Reset', Math.ceil((Date.now() + result.msBeforeNext) / 1000))
}

function sendError(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'Content-Type': 'application/json; charset=utf-8' })
  response.end(JSON.stringify({ code: status, message }))
}

listen('plain', server)
