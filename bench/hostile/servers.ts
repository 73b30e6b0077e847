/** The servers under attack, each as a sensible operator would set it up for the same job: keys, a limit per client, one for the anonymous. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../test/support/redis-server.ts'
import { clientEntries, makeCertificate, startGateway } from '../gateway.ts'
import { findInstalled, nginx as nginxOrder } from '../peers/nginx.ts'
import type { Launched, Processes } from '../processes.ts'
import { clients, METERED_PER_MINUTE } from './clients.ts'
import { ALGORITHM, CLAIMS, type Issuer } from './issuer.ts'

/** What every server is set up for. */
export interface Setup {
  /** Host and port of each. */
  readonly backends: readonly string[]
  /** How long a backend may take. */
  readonly responseMs: number
  /** How long a client may take for a request. */
  readonly requestMs: number
  readonly bodyBytes: number
  /** Files and sockets it may have open. */
  readonly openFiles?: number
  /** With HTTP/2 beside HTTP/1.1. */
  readonly isSecure?: boolean
  /** Preflights of browsers are answered. */
  readonly hasCors?: boolean
  /** X-Forwarded-For of loopback is believed. */
  readonly isBehindProxy?: boolean
  /** Tokens of this issuer are taken. */
  readonly issuer?: Issuer | undefined
}

/** The origin of the pages that ask. */
export const PAGE = 'https://app.example'
export interface Server {
  readonly name: string
  readonly kind: 'gateway' | 'nginx' | 'haproxy'
  start(processes: Processes, setup: Setup): Promise<Launched>
}

/** Each Node.js engine of the gateway is a server of its own. */
export const gateway = (engine: 'direct' | 'http-proxy-3'): Server => ({
  name: `gateway, ${engine}`,
  kind: 'gateway',
  start: (processes, setup) => {
    const { backends, responseMs, requestMs, bodyBytes, ...rest } = setup
    const { issuer, isBehindProxy, hasCors, isSecure, openFiles } = rest
    const { metered, ...unlimited } = clients
    const ample = { perMinute: 1_000_000_000, perDay: 1_000_000_000_000 }
    return startGateway(processes, {
      name: engine,
      openFiles,
      config: {
        server: {
          ...(isSecure && { tls: makeCertificate(processes.directory) }),
          trustedProxies: isBehindProxy ? ['127.0.0.0/8'] : [],
          limits: { bodyBytes: `${bodyBytes}B` },
          timeouts: { headers: `${Math.min(10_000, requestMs)}ms`, request: `${requestMs}ms` },
        },
        ...(hasCors && { cors: { origins: [PAGE] } }),
        upstream: {
          urls: backends.map((backend) => `http://${backend}`),
          engine,
          connections: 128,
          timeouts: { connect: '1s', response: `${responseMs}ms` },
        },
        ...(issuer && {
          jwt: {
            issuer: CLAIMS.iss,
            audience: CLAIMS.aud,
            jwksUri: issuer.jwksUri,
            algorithms: [ALGORITHM],
          },
        }),
        clients: [
          ...clientEntries(Object.values(unlimited), { limits: ample }),
          ...clientEntries([metered], {
            limits: { perMinute: METERED_PER_MINUTE, perDay: 100_000 },
          }),
        ],
      },
    })
  },
})

const bearer = ({ key }: { readonly key: string }): string => `Bearer ${key}`
const seconds = (ms: number): number => Math.ceil(ms / 1000)

/**
 * Keys by `map`, a request without one goes to a location that counts addresses and then says 401. `limit_req` counts clients.
 * Request bodies and answers are buffered, which is its default, and a backend that fails is left alone for ten seconds.
 */
export const nginx: Server = {
  name: 'nginx',
  kind: 'nginx',
  start: async (processes, setup) => {
    const { directory } = processes
    const { backends, responseMs, requestMs, bodyBytes } = setup
    const tls = setup.isSecure ? makeCertificate(directory) : undefined
    const keys = Object.entries(clients).map(([name, one]) => `"${bearer(one)}" ${name};`)
    const order = await nginxOrder({
      name: 'nginx',
      directory,
      backends,
      connections: setup.openFiles === undefined ? 4096 : setup.openFiles - 30,
      http: `access_log ${directory}/nginx-access.log combined buffer=64k flush=1s;
  ${setup.isBehindProxy ? 'set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For;' : ''}
  map_hash_bucket_size 128;
  map $http_authorization $client {
    default "";
    ${keys.join('\n    ')}
  }
  map $client $metered { default ""; metered metered; }
  limit_req_zone $binary_remote_addr zone=anonymous:16m rate=60r/m;
  limit_req_zone $metered zone=metered:1m rate=${METERED_PER_MINUTE}r/m;
  limit_req_status 429;
  client_max_body_size ${bodyBytes};
  client_header_timeout ${seconds(Math.min(10_000, requestMs))}s;
  client_body_timeout ${seconds(requestMs)}s;`,
      upstream: 'keepalive 128;',
      tls,
      location: `${setup.hasCors ? `if ($request_method = OPTIONS) { add_header Access-Control-Allow-Origin ${PAGE}; return 204; }` : ''}
      if ($client = "") { rewrite ^ /anonymous last; }
      limit_req zone=metered burst=${METERED_PER_MINUTE - 1} nodelay;
      proxy_set_header Authorization "";
      proxy_set_header X-Client-Id $client;
      proxy_connect_timeout 1s;
      proxy_read_timeout ${responseMs}ms;`,
      otherLocations: `location /anonymous {
      internal;
      limit_req zone=anonymous burst=59 nodelay;
      try_files /nothing-of-this-name =401;
    }`,
    })
    return processes.launch({ ...order, openFiles: setup.openFiles })
  },
}

/** Keys from a file, stick tables for both limits, whole requests before a backend is chosen, each backend checked every second. */
export const haproxy: Server = {
  name: 'HAProxy',
  kind: 'haproxy',
  start: async (processes, setup) => {
    const [port, file] = [await freePort(), join(processes.directory, 'haproxy.cfg')]
    writeFileSync(file, haproxyConfig(processes.directory, port, setup))
    return processes.launch({
      name: 'haproxy',
      executable: findInstalled('haproxy') ?? 'haproxy',
      command: ['-db', '-f', file],
      listener: 'haproxy',
      port,
      own: false,
      openFiles: setup.openFiles,
    })
  },
}

export const isInstalled = ({ kind }: Server): boolean =>
  kind === 'gateway' || findInstalled(kind) !== undefined

function haproxyConfig(directory: string, port: number, setup: Setup): string {
  const { backends, responseMs, requestMs } = setup
  const keys = join(directory, 'haproxy-keys')
  writeFileSync(keys, `${Object.values(clients).map(bearer).join('\n')}\n`)
  let tls = ''
  if (setup.isSecure) {
    const { cert, key } = makeCertificate(directory)
    const both = join(directory, 'haproxy.pem')
    writeFileSync(both, readFileSync(cert, 'utf8') + readFileSync(key, 'utf8'))
    tls = ` ssl crt ${both} alpn h2,http/1.1`
  }
  return `global
  ${setup.openFiles === undefined ? 'maxconn 4096' : ''}
  nbthread 1
defaults
  mode http
  timeout connect 1s
  timeout client ${requestMs}ms
  timeout server ${responseMs}ms
  timeout http-request ${Math.min(10_000, requestMs)}ms
  timeout http-keep-alive 75s
  option http-buffer-request
  option redispatch 1
  retries 1
  retry-on conn-failure empty-response response-timeout
frontend public
  bind 127.0.0.1:${port}${tls}
  ${setup.hasCors ? `http-request return status 204 hdr Access-Control-Allow-Origin ${PAGE} if METH_OPTIONS` : ''}
  ${setup.isBehindProxy ? 'http-request set-src req.hdr(x-forwarded-for)' : ''}
  acl known req.hdr(authorization) -m str -f ${keys}
  acl metered req.hdr(authorization) -m str "${bearer(clients.metered)}"
  http-request track-sc0 src table addresses unless known
  http-request deny deny_status 429 if !known { sc0_http_req_rate(addresses) gt 60 }
  http-request deny deny_status 401 unless known
  http-request track-sc1 req.hdr(authorization) table keys if metered
  http-request deny deny_status 429 if metered { sc1_http_req_rate(keys) gt ${METERED_PER_MINUTE} }
  http-request del-header authorization
  default_backend backends
backend addresses
  stick-table type ipv6 size 100k expire 2m store http_req_rate(60s)
backend keys
  stick-table type string len 128 size 10k expire 2m store http_req_rate(60s)
backend backends
  balance leastconn
  option httpchk GET /healthz
  timeout check 1s
  ${backends.map((backend, at) => `server b${at} ${backend} maxconn 128 check inter 1s fall 2 rise 2 observe layer7 error-limit 5 on-error mark-down`).join('\n  ')}
`
}
