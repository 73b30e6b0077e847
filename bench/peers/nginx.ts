/** nginx as a peer: its configuration, written to the folder of the run, and whether it is installed at all. */
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../test/support/redis-server.ts'
import type { Certificate } from '../gateway.ts'
import type { LaunchOrder } from '../processes.ts'

/** The row is left out and the others go on. */
export class NotInstalled extends Error {}

const modules = '/usr/lib/nginx/modules'
const luaNeeds = [
  `${modules}/ndk_http_module.so`,
  `${modules}/ngx_http_lua_module.so`,
  '/usr/share/lua/5.1/nginx/redis.lua',
]
const luaPackages = 'libnginx-mod-http-lua lua-nginx-redis'

export interface NginxParts {
  readonly name: string
  /** Folder of the run: configuration, logs, temporary files. */
  readonly directory: string
  /** Host and port of each. */
  readonly backends: readonly string[]
  /** Lines of the configuration, each in its place. */
  readonly main?: string
  readonly http: string
  readonly upstream: string
  /** Over TLS, with HTTP/2. */
  readonly tls?: Certificate | undefined
  /** What `location /` has before it passes the request on. */
  readonly location: string
  readonly otherLocations?: string
  readonly connections?: number
}

/** Writes a configuration and says how to start it. Throws NotInstalled with the command that mends it. */
export async function nginx(parts: NginxParts): Promise<LaunchOrder> {
  const executable = needed('nginx', 'nginx')
  const { name, directory } = parts
  const port = await freePort()
  const file = join(directory, `${name}.conf`)
  writeFileSync(file, configuration(parts, port))
  const command = ['-p', directory, '-e', 'stderr', '-c', file] as const
  return { name, executable, command: [...command], listener: name, port, own: false }
}

/** One worker process, as every other server has. */
function configuration(parts: NginxParts, port: number): string {
  const { name, directory, backends, main = '', connections = 4096 } = parts
  const { cert, key } = parts.tls ?? {}
  const tls = cert ? ` ssl http2; ssl_certificate ${cert}; ssl_certificate_key ${key}` : ''
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${directory}/${name}-${kind};`,
  )
  // A worker of another user could not write to the folder of the run; only root may name one.
  const user = process.getuid?.() === 0 ? `user ${userInfo().username} root;` : ''
  return `daemon off;
worker_processes 1;
pid ${directory}/${name}.pid;
error_log stderr warn;
${user}
${main}
events { worker_connections ${connections}; }
http {
  ${temporary.join('\n  ')}
  ${parts.http}
  upstream backend {
    ${backends.map((backend) => `server ${backend};`).join('\n    ')}
    ${parts.upstream}
  }
  server {
    listen 127.0.0.1:${port}${tls};
    location / {
      ${parts.location}
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass http://backend;
    }
    ${parts.otherLocations ?? ''}
  }
}
`
}

/** Whom a peer lets through, and how often. */
export interface PeerTerms {
  readonly plan: string
  readonly limits: { readonly perMinute: number; readonly perDay: number }
  /** sha256: of the key, 64 hex digits. */
  readonly clients: readonly { readonly id: string; readonly sha256: string }[]
}

type LimitedPeer = Readonly<{ terms: PeerTerms; redisPort: number }>

interface NginxPeerParts extends Pick<NginxParts, 'name' | 'directory' | 'tls'> {
  /** Scheme, host and port. */
  readonly backend: string
  /** undefined: it passes on whatever comes. */
  readonly limited: LimitedPeer | undefined
  readonly isUnbuffered: boolean
}

/** nginx that passes on, or one that keeps limits with Lua and Redis. Connections are kept for as long as the bench runs. */
export function nginxPeer(peer: NginxPeerParts): Promise<LaunchOrder> {
  const { name, directory, backend, tls, limited, isUnbuffered } = peer
  const parts = {
    name,
    directory,
    tls,
    backends: [new URL(backend).host],
    http: 'keepalive_requests 1000000000; client_max_body_size 16m;',
    upstream: 'keepalive 128; keepalive_requests 1000000000;',
    location: isUnbuffered ? 'proxy_buffering off; proxy_request_buffering off;' : '',
  }
  if (limited === undefined) return nginx({ ...parts, http: `${parts.http} access_log off;` })
  if (!luaNeeds.every((file) => existsSync(file))) throw new NotInstalled(aptGet(luaPackages))
  writeFileSync(join(directory, 'nginx-lua-settings.lua'), luaSettings(limited))
  // The access log has the fields of the gateway's, as JSON, and is buffered.
  return nginx({
    ...parts,
    main: `load_module ${luaNeeds[0]};\nload_module ${luaNeeds[1]};`,
    http: `${parts.http}
  lua_package_path "${directory}/?.lua;${import.meta.dirname}/?.lua;;";
  init_by_lua_block { admit = require("nginx-limits").admit }
  log_format access escape=json '{"time":"$time_iso8601","address":"$remote_addr","client":"$client","method":"$request_method",'
    '"path":"$uri","status":$status,"bytes":$body_bytes_sent,"seconds":$request_time,"backendSeconds":"$upstream_response_time"}';
  access_log ${directory}/${name}.log access buffer=64k flush=1s;`,
    location: `set $client "";
      access_by_lua_block { return admit() }
      proxy_set_header Authorization "";
      proxy_set_header X-Client-Id $client;
      proxy_set_header X-Client-Plan ${limited.terms.plan};
      proxy_set_header X-Forwarded-For $remote_addr;`,
  })
}

function luaSettings({ terms: { clients, limits }, redisPort }: LimitedPeer): string {
  return `return {
  redis_port = ${redisPort}, per_minute = ${limits.perMinute}, per_day = ${limits.perDay},
  clients = {
${clients.map(({ id, sha256 }) => `    ["${sha256}"] = "${id}",`).join('\n')}
  },
}
`
}

type Program = 'nginx' | 'haproxy' | 'h2load'

/** Debian puts it where only root's path leads. */
export const findInstalled = (program: Program): string | undefined =>
  [program, `/usr/sbin/${program}`].find((name) => !spawnSync(name, ['-v']).error)

/** Throws NotInstalled with the command that installs its packages. */
export function needed(program: Program, packages: string): string {
  const found = findInstalled(program)
  if (found === undefined) throw new NotInstalled(aptGet(packages))
  return found
}

const aptGet = (packages: string): string => `apt-get update && apt-get install -y ${packages}`
