/** Where and how the figures were taken, as the report says it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { measured, peers } from './packages.ts'
import { findNginx } from './peers/nginx.ts'

export interface Method {
  readonly rounds: number
  readonly warmUpSeconds: number
  readonly measuredSeconds: number
  readonly connections: number
  readonly keys: number
}

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
    `- Node.js ${process.versions.node}, Redis ${redis?.[1] ?? 'unknown'}, ${measured.map(nameAndVersion).join(', ')}`,
    `- peers: nginx ${nginx ? nginx[1] : 'not installed'}, ${peers.map(nameAndVersion).join(', ')}`,
    `- ${rounds} rounds of ${measuredSeconds} s after ${warmUpSeconds} s of warm-up, ${connections} connections, ${keys} keys; medians`,
  ].join('\n')
}

/** Of the gateway's packages, else of the bench's own. */
function nameAndVersion(name: string): string {
  const at = (folder: string): string => join(import.meta.dirname, folder, name, 'package.json')
  const [gateways, own] = [at('../node_modules'), at('node_modules')]
  const text = readFileSync(existsSync(gateways) ? gateways : own, 'utf8')
  return `${name} ${(JSON.parse(text) as { version: string }).version}`
}
