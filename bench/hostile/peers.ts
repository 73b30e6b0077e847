/** nginx and HAProxy in front of the same backend with the same keys: what they have of their own for this, and no script. */
import { readFileSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import type { Issuer } from './issuer.ts'
import { makeCertificate } from './certificate.ts'
import { clients, METERED_PER_MINUTE, type Setup } from './setup.ts'

/** The origin of the pages that ask. */
export const PAGE = 'https://app.example'

const bearer = ({ key }: { readonly key: string }): string => `Bearer ${key}`
const seconds = (ms: number): number => Math.ceil(ms / 1000)

/**
 * Keys by `map`, a request without one goes to a location that counts addresses and then says 401. `limit_req` counts clients.
 * Request bodies and answers are buffered, which is its default, and a backend that fails is left alone for ten seconds.
 */
export function nginxConfig(directory: string, port: number, setup: Setup): string {
  const { backends, responseMs = 30_000, requestMs = 60_000, bodyBytes = 1_048_576 } = setup
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${directory}/nginx-${kind};`,
  )
  const connections = setup.openFiles === undefined ? 4096 : setup.openFiles - 30
  const secure = setup.isSecure ? makeCertificate(directory) : undefined
  const tls = secure
    ? ` ssl http2; ssl_certificate ${secure.cert}; ssl_certificate_key ${secure.key}`
    : ''
  // A worker of another user could not write to the folder of the run; only root may name one.
  const user = process.getuid?.() === 0 ? `user ${userInfo().username} root;` : ''
  return `daemon off;
worker_processes 1;
pid ${directory}/nginx.pid;
error_log ${directory}/nginx-error.log warn;
${user}
events { worker_connections ${connections}; }
http {
  ${temporary.join('\n  ')}
  access_log ${directory}/nginx-access.log combined buffer=64k flush=1s;
  ${setup.isBehindProxy ? 'set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For;' : ''}
  map_hash_bucket_size 128;
  map $http_authorization $client {
    default "";
    ${Object.entries(clients)
      .map(([name, client]) => `"${bearer(client)}" ${name};`)
      .join('\n    ')}
  }
  map $client $metered { default ""; metered metered; }
  limit_req_zone $binary_remote_addr zone=anonymous:16m rate=60r/m;
  limit_req_zone $metered zone=metered:1m rate=${METERED_PER_MINUTE}r/m;
  limit_req_status 429;
  client_max_body_size ${bodyBytes};
  client_header_timeout ${seconds(Math.min(10_000, requestMs))}s;
  client_body_timeout ${seconds(requestMs)}s;
  upstream backend {
    ${backends.map((backend) => `server ${backend};`).join('\n    ')}
    keepalive ${setup.connections ?? 128};
  }
  server {
    listen 127.0.0.1:${port}${tls};
    location / {
      ${setup.hasCors ? `if ($request_method = OPTIONS) { add_header Access-Control-Allow-Origin ${PAGE}; return 204; }` : ''}
      if ($client = "") { rewrite ^ /anonymous last; }
      limit_req zone=metered burst=${METERED_PER_MINUTE - 1} nodelay;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Authorization "";
      proxy_set_header X-Client-Id $client;
      proxy_connect_timeout 1s;
      proxy_read_timeout ${responseMs}ms;
      proxy_pass http://backend;
    }
    location /anonymous {
      internal;
      limit_req zone=anonymous burst=59 nodelay;
      try_files /nothing-of-this-name =401;
    }
  }
}
`
}

/** Keys from a file, stick tables for both limits, whole requests before a backend is chosen, each backend checked every second. */
export function haproxyConfig(directory: string, port: number, setup: Setup): string {
  const { backends, responseMs = 30_000, requestMs = 60_000 } = setup
  const keys = join(directory, 'haproxy-keys')
  writeFileSync(keys, `${Object.values(clients).map(bearer).join('\n')}\n`)
  const connections = setup.openFiles === undefined ? 'maxconn 4096' : ''
  let tls = ''
  if (setup.isSecure) {
    const { cert, key } = makeCertificate(directory)
    const both = join(directory, 'haproxy.pem')
    writeFileSync(both, readFileSync(cert, 'utf8') + readFileSync(key, 'utf8'))
    tls = ` ssl crt ${both} alpn h2,http/1.1`
  }
  return `global
  ${connections}
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
  ${setup.issuer ? tokenRules(directory, setup.issuer) : `acl known req.hdr(authorization) -m str -f ${keys}`}
  acl metered req.hdr(authorization) -m str "${bearer(clients.metered)}"
  http-request track-sc0 src table addresses unless known
  http-request deny deny_status 429 if !known { sc0_http_req_rate(addresses) gt 60 }
  http-request deny deny_status 401 unless known
  http-request track-sc1 req.hdr(authorization) table keys if metered
  http-request deny deny_status 429 if metered { sc1_http_req_rate(keys) gt ${METERED_PER_MINUTE} }
  http-request del-header authorization
  default_backend backends
backend addresses
  stick-table type ipv6 size 100k expire 2m store http_req_rate(60s),gpc0,gpc0_rate(60s)
backend keys
  stick-table type string len 128 size 10k expire 2m store http_req_rate(60s)
backend backends
  balance leastconn
  option httpchk GET /healthz
  timeout check 1s
  ${backends.map((backend, nth) => `server b${nth} ${backend} maxconn ${setup.connections ?? 128} check inter 1s fall 2 rise 2 observe layer7 error-limit 5 on-error mark-down`).join('\n  ')}
`
}

/** Tokens by `jwt_verify`, in the thread that serves; an address with 60 false ones in a minute is refused before any is checked. */
function tokenRules(directory: string, { publicKey }: Issuer): string {
  const file = join(directory, 'haproxy-issuer.pem')
  writeFileSync(file, publicKey)
  return `http-request track-sc2 src table addresses
  http-request deny deny_status 429 if { sc2_gpc0_rate(addresses) gt 60 }
  http-request set-var(txn.alg) http_auth_bearer,jwt_header_query('$.alg')
  http-request set-var(txn.good) http_auth_bearer,jwt_verify(txn.alg,"${file}")
  acl known var(txn.good) -m int 1
  http-request sc-inc-gpc0(2) unless known`
}
