/** Where and with what the figures were taken, as the reports say it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { findInstalled } from './peers/nginx.ts'
import { script } from './processes.ts'

/** Packages whose versions the reports state: package.json or bench/package.json names them. */
export const packages = [
  'http-proxy-3',
  'ioredis',
  'fastify',
  '@fastify/http-proxy',
  '@fastify/rate-limit',
]

export const today = (): string => new Date().toISOString().slice(0, 10)

export function machine(): string {
  const [first] = cpus()
  const memory = (totalmem() / 2 ** 30).toFixed(0)
  const system = `${process.platform} ${release().split('.').slice(0, 2).join('.')}`
  return `${cpus().length} cores, ${first?.model.trim() ?? 'unknown CPU'}, ${memory} GiB, ${system}`
}

export function versions(): string {
  const redis = /v=(\S+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))
  return `Node.js ${process.versions.node}, Redis ${redis?.[1] ?? 'unknown'}`
}

/** What the peers are made of. */
export function peerVersions(): string {
  const executable = findInstalled('nginx')
  const told = executable && spawnSync(executable, ['-v'], { encoding: 'utf8' }).stderr
  const nginx = /nginx\/(\S+)/.exec(told ?? '')?.[1] ?? 'not installed'
  return [`nginx ${nginx}`, ...packages.map(nameAndVersion)].join(', ')
}

/** The gateway's packages come before the bench's own. */
function nameAndVersion(name: string): string {
  const files = ['../node_modules', 'node_modules'].map((at) =>
    script(`${at}/${name}/package.json`),
  )
  const text = readFileSync(files.find((file) => existsSync(file)) ?? name, 'utf8')
  return `${name} ${(JSON.parse(text) as { version: string }).version}`
}
