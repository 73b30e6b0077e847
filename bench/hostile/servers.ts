/** The servers under attack, each as a sensible operator would set it up for the same job: keys, a limit per client, one for the anonymous. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../test/support/redis-server.ts'
import { findNginx } from '../peers/nginx.ts'
import type { LaunchOrder, Launched, Processes } from '../processes.ts'
import type { BenchClient } from '../workload.ts'
import { ALGORITHM, claims, type Issuer } from './issuer.ts'
import { makeCertificate } from './certificate.ts'
import { haproxyConfig, nginxConfig, PAGE } from './peers.ts'
import { clients, METERED_PER_MINUTE, type Setup } from './setup.ts'

export interface Server {
  readonly name: string
  readonly kind: 'gateway' | 'nginx' | 'haproxy'
  start(processes: Processes, setup: Setup): Promise<Launched>
}

/** Each Node.js engine of the gateway is a server of its own. */
export const gateway = (engine: 'direct' | 'http-proxy-3'): Server => ({
  name: `gateway, ${engine}`,
  kind: 'gateway',
  start: async ({ directory, launch }, setup) => {
    const file = join(directory, `${engine}.json`)
    const tls = setup.isSecure ? makeCertificate(directory) : undefined
    writeFileSync(file, gatewayConfig(engine, setup, tls))
    const main = join(import.meta.dirname, '../../src/main.ts')
    const command = [process.execPath, main, 'start', '--config', file] as const
    return launch({ name: engine, listener: 'tollgate', own: false, ...limited(command, setup) })
  },
})

export const nginx: Server = {
  name: 'nginx',
  kind: 'nginx',
  start: async ({ directory, launch }, setup) => {
    const [port, file] = [await freePort(), join(directory, 'nginx.conf')]
    writeFileSync(file, nginxConfig(directory, port, setup))
    const command = [findNginx() ?? 'nginx', '-p', directory, '-e', 'stderr', '-c', file] as const
    return launch({
      name: 'nginx',
      listener: 'nginx',
      port,
      own: false,
      ...limited(command, setup),
    })
  },
}

export const haproxy: Server = {
  name: 'HAProxy',
  kind: 'haproxy',
  start: async ({ directory, launch }, setup) => {
    const [port, file] = [await freePort(), join(directory, 'haproxy.cfg')]
    writeFileSync(file, haproxyConfig(directory, port, setup))
    const command = [findHaproxy() ?? 'haproxy', '-db', '-f', file] as const
    return launch({
      name: 'haproxy',
      listener: 'haproxy',
      port,
      own: false,
      ...limited(command, setup),
    })
  },
}

/** Debian puts it where only root's path leads. */
function findHaproxy(): string | undefined {
  return ['haproxy', '/usr/sbin/haproxy'].find((name) => !spawnSync(name, ['-v']).error)
}

export const isInstalled = ({ kind }: Server): boolean =>
  kind === 'gateway' || (kind === 'nginx' ? findNginx() : findHaproxy()) !== undefined

/** The shell becomes the server, so that the process id is right. */
function limited(
  [executable, ...args]: readonly [string, ...string[]],
  { openFiles }: Setup,
): Pick<LaunchOrder, 'executable' | 'command'> {
  const limit = openFiles === undefined ? '' : `ulimit -n ${openFiles}; `
  return { executable: 'sh', command: ['-c', `${limit}exec "$0" "$@"`, executable, ...args] }
}

const issuerOf = ({ jwksUri }: Issuer) => ({
  issuer: claims.iss,
  audience: claims.aud,
  jwksUri,
  algorithms: [ALGORITHM],
})

/** JSON, which is YAML too. Log and metrics are on, as in production. */
function gatewayConfig(engine: string, setup: Setup, tls: object | undefined): string {
  const { backends, responseMs = 30_000, requestMs = 60_000, bodyBytes = 1_048_576 } = setup
  const unlimited = { perMinute: 1_000_000_000, perDay: 1_000_000_000_000 }
  const client = ({ id, sha256 }: BenchClient, limits: object) => ({
    id,
    plan: 'enterprise',
    limits,
    keys: [{ id: `${id}-key`, sha256 }],
  })
  return JSON.stringify({
    server: {
      listen: '127.0.0.1:0',
      ...(tls && { tls }),
      basePath: '/v1',
      trustedProxies: setup.isBehindProxy ? ['127.0.0.0/8'] : [],
      limits: { bodyBytes: `${bodyBytes}B` },
      timeouts: { headers: `${Math.min(10_000, requestMs)}ms`, request: `${requestMs}ms` },
    },
    admin: { listen: '127.0.0.1:0' },
    ...(setup.hasCors && { cors: { origins: [PAGE] } }),
    upstream: {
      urls: backends.map((backend) => `http://${backend}`),
      engine,
      connections: setup.connections ?? 128,
      timeouts: { connect: '1s', response: `${responseMs}ms` },
    },
    ...(setup.issuer && { jwt: issuerOf(setup.issuer) }),
    store: { redis: '', file: '' },
    plans: { enterprise: { custom: true } },
    clients: Object.values(clients).map((one) =>
      client(
        one,
        one === clients.metered ? { perMinute: METERED_PER_MINUTE, perDay: 100_000 } : unlimited,
      ),
    ),
    log: { level: 'info', access: true },
  })
}
