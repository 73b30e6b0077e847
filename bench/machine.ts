/** Where and how the figures were taken, as the report says it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { findNginx } from './peers/nginx.ts'

export interface Method {
  readonly rounds: number
  readonly warmUpSeconds: number
  readonly measuredSeconds: number
  readonly connections: number
  readonly keys: number
}

const own = ['undici', 'http-proxy-3', 'ioredis', 'autocannon']
const ofPeers = [
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

export function machine(method: Method): string {
  const { rounds, warmUpSeconds, measuredSeconds, connections, keys } = method
  const [first] = cpus()
  const redis = /v=(\S+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))
  const executable = findNginx()
  const nginx =
    executable !== undefined &&
    /nginx\/(\S+)/.exec(spawnSync(executable, ['-v'], { encoding: 'utf8' }).stderr)
  return [
    `- date: ${new Date().toISOString().slice(0, 10)}`,
    `- machine: ${cpus().length} cores, ${first?.model.trim() ?? 'unknown CPU'}, ${(totalmem() / 2 ** 30).toFixed(0)} GiB, ${process.platform} ${release().split('.').slice(0, 2).join('.')}`,
    `- Node.js ${process.versions.node}, Redis ${redis?.[1] ?? 'unknown'}, ${own.map(nameAndVersion).join(', ')}`,
    `- peers: nginx ${nginx ? nginx[1] : 'not installed'}, ${ofPeers.map(nameAndVersion).join(', ')}`,
    `- ${rounds} rounds of ${measuredSeconds} s after ${warmUpSeconds} s of warm-up, ${connections} connections, ${keys} keys; medians`,
  ].join('\n')
}

function nameAndVersion(name: string): string {
  const file = join(import.meta.dirname, '../node_modules', name, 'package.json')
  const { version } = JSON.parse(readFileSync(file, 'utf8')) as { version: string }
  return `${name} ${version}`
}
