/** nginx and HAProxy in front of the same backend with the same keys: what they have of their own for this, and no script. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { clients, METERED_PER_MINUTE, type Setup } from './setup.ts'

const bearer = ({ key }: { readonly key: string }): string => `Bearer ${key}`
const seconds = (ms: number): number => Math.ceil(ms / 1000)

/** A certificate that nobody vouches for; paths of its PEM files. */
export function writeIdentity(directory: string): { readonly cert: string; readonly key: string } {
  const [cert, key] = [join(directory, 'cert.pem'), join(directory, 'key.pem')]
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const files = ['-keyout', key, '-out', cert]
  const named = ['-days', '2', '-subj', '/CN=localhost']
  execFileSync('openssl', ['req', '-x509', ...newKey, ...named, ...files], { stdio: 'ignore' })
  return { cert, key }
}

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
    keepalive 128;
  }
  server {
    listen 127.0.0.1:${port}${setup.isTls ? ' ssl http2' : ''};
    ${nginxTls(directory, setup)}
    location / {
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

function nginxTls(directory: string, { isTls }: Setup): string {
  if (!isTls) return ''
  const { cert, key } = writeIdentity(directory)
  return `ssl_certificate ${cert}; ssl_certificate_key ${key};`
}

function haproxyTls(directory: string, { isTls }: Setup): string {
  if (!isTls) return ''
  const { cert, key } = writeIdentity(directory)
  const both = join(directory, 'both.pem')
  writeFileSync(both, readFileSync(cert, 'utf8') + readFileSync(key, 'utf8'))
  return ` ssl crt ${both} alpn h2,http/1.1`
}

/** Keys from a file, stick tables for both limits, whole requests before a backend is chosen, each backend checked every second. */
export function haproxyConfig(directory: string, port: number, setup: Setup): string {
  const { backends, responseMs = 30_000, requestMs = 60_000 } = setup
  const keys = join(directory, 'haproxy-keys')
  writeFileSync(keys, `${Object.values(clients).map(bearer).join('\n')}\n`)
  const connections = setup.openFiles === undefined ? 'maxconn 4096' : ''
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
  bind 127.0.0.1:${port}${haproxyTls(directory, setup)}
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
  ${backends.map((backend, nth) => `server b${nth} ${backend} maxconn 128 check inter 1s fall 2 rise 2 observe layer7 error-limit 5 on-error mark-down`).join('\n  ')}
`
}
