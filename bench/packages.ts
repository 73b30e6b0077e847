/** Whose versions the report states: packages that package.json or bench/package.json names. */
export const measured = ['http-proxy-3', 'ioredis', 'autocannon']
export const peers = [
  'rate-limiter-flexible',
  'prom-client',
  'fastify',
  '@fastify/http-proxy',
  '@fastify/rate-limit',
  'express',
  'http-proxy-middleware',
  'express-rate-limit',
  'rate-limit-redis',
]
