/** nginx as a peer: its configuration, written to the folder of the run, and whether it is installed at all. */
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../test/support/redis-server.ts'
import type { LaunchOrder } from '../processes.ts'
import type { PeerConfig } from './peer.ts'

/** The row is left out and the others go on. */
export class NotInstalled extends Error {}

const modules = '/usr/lib/nginx/modules'
const luaNeeds = [
  `${modules}/ndk_http_module.so`,
  `${modules}/ngx_http_lua_module.so`,
  '/usr/share/lua/5.1/nginx/redis.lua',
]

export interface NginxOrder {
  readonly name: string
  /** Folder of the run: configuration, logs, temporary files. */
  readonly directory: string
  /** Scheme, host and port. */
  readonly backend: string
  /** undefined: proxy_pass alone. */
  readonly limits:
    (Pick<PeerConfig, 'plan' | 'limits' | 'clients'> & { redisPort: number }) | undefined
}

/** Writes the configuration and says how to start it. Throws NotInstalled with the command that mends it. */
export async function nginx({
  name,
  directory,
  backend,
  limits,
}: NginxOrder): Promise<LaunchOrder> {
  const executable = findNginx()
  if (executable === undefined)
    throw new NotInstalled(aptGet(limits ? ['nginx', ...luaPackages] : ['nginx']))
  if (limits && !luaNeeds.every((file) => existsSync(file)))
    throw new NotInstalled(aptGet(luaPackages))
  const port = await freePort()
  const files = { name, directory, backend, port }
  if (limits) writeFileSync(join(directory, 'nginx-lua-settings.lua'), luaSettings(limits))
  const file = join(directory, `${name}.conf`)
  writeFileSync(file, limits ? withLimits(files, limits.plan) : plain(files))
  return {
    name,
    executable,
    command: ['-p', directory, '-e', 'stderr', '-c', file],
    listener: name,
    port,
    own: false,
  }
}

/** Debian puts it where only root's path leads. */
export function findNginx(): string | undefined {
  return ['nginx', '/usr/sbin/nginx'].find((name) => !spawnSync(name, ['-v']).error)
}

const luaPackages = ['libnginx-mod-http-lua', 'lua-nginx-redis']

function aptGet(packages: readonly string[]): string {
  return `apt-get update && apt-get install -y ${packages.join(' ')}`
}

interface Files {
  readonly name: string
  readonly directory: string
  readonly backend: string
  readonly port: number
}

function plain(files: Files): string {
  return configuration(files, {
    modules: '',
    http: 'access_log off;',
    location: '',
  })
}

/** The access log has the fields of the gateway's, as JSON, and is buffered. */
function withLimits(files: Files, plan: string): string {
  return configuration(files, {
    modules: `load_module ${luaNeeds[0]};\nload_module ${luaNeeds[1]};`,
    http: `lua_package_path "${files.directory}/?.lua;${import.meta.dirname}/?.lua;;";
  init_by_lua_block { admit = require("nginx-limits").admit }
  log_format access escape=json '{"time":"$time_iso8601","address":"$remote_addr","client":"$client","method":"$request_method",'
    '"path":"$uri","status":$status,"bytes":$body_bytes_sent,"seconds":$request_time,"backendSeconds":"$upstream_response_time"}';
  access_log ${files.directory}/${files.name}.log access buffer=64k flush=1s;`,
    location: `set $client "";
      access_by_lua_block { return admit() }
      proxy_set_header Authorization "";
      proxy_set_header X-Client-Id $client;
      proxy_set_header X-Client-Plan ${plan};
      proxy_set_header X-Forwarded-For $remote_addr;`,
  })
}

/** One worker process, as every other row has; connections are kept on both sides for as long as the bench runs. */
function configuration(
  { name, directory, backend, port }: Files,
  parts: { readonly modules: string; readonly http: string; readonly location: string },
): string {
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
${parts.modules}
events { worker_connections 4096; }
http {
  ${temporary.join('\n  ')}
  ${parts.http}
  keepalive_requests 1000000000;
  upstream backend {
    server ${new URL(backend).host};
    keepalive 128;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      ${parts.location}
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass http://backend;
    }
  }
}
`
}

function luaSettings({ clients, limits, redisPort }: NonNullable<NginxOrder['limits']>): string {
  return `return {
  redis_port = ${redisPort}, per_minute = ${limits.perMinute}, per_day = ${limits.perDay},
  clients = {
${clients.map(({ id, sha256 }) => `    ["${sha256}"] = "${id}",`).join('\n')}
  },
}
`
}
