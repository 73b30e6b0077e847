/**
 * `node bench/conformance.ts [--write]`: the conformance suite against Tollgate and its peers, all at once. Each is started twice:
 * with the limits of the free plan for everything, and with a day that two minutes use up for what concerns the day.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rules } from '../src/tools/conformance/rules.ts'
import { runSuite, type Report, type Row } from '../src/tools/conformance/suite.ts'
import { findNginx, nginx } from './peers/nginx.ts'
import type { PeerConfig } from './peers/peer.ts'
import { createProcesses, type Processes } from './processes.ts'
import { ampleClients } from './workload.ts'

const everything = { perMinute: 60, perDay: 1000 }
/** The second minute uses it up: what a refusal costs shows in what is left for that. */
const smallDay = { perMinute: 20, perDay: 30 }
const ofDay = ['refused', 'day']
type Limits = typeof everything
const clients = ampleClients.slice(0, 20)
const path = '/v1/pets'

interface World {
  readonly processes: Processes
  readonly backend: string
  readonly limits: Limits
}

interface Subject {
  readonly name: string
  readonly label: string
  /** By check: what its packages do not say that they do, or say that they do in another way. */
  readonly documented: Readonly<Record<string, string>>
  /** Resolves with its origin. */
  start(world: World): Promise<string>
}

const script = (name: string): string => join(import.meta.dirname, name)

function tollgate(name: string, label: string, { workers = 1, isOnRedis = false }): Subject {
  return {
    name,
    label,
    documented: {},
    async start({ processes, backend, limits }) {
      const file = join(processes.directory, `${name}.yaml`)
      const redis = isOnRedis ? (await processes.redis()).url : ''
      const config = {
        server: { listen: '127.0.0.1:0', workers },
        admin: { listen: '127.0.0.1:0' },
        upstream: { urls: [backend] },
        store: { redis, file: '' },
        plans: { free: limits },
        clients: clients.map(({ id, sha256 }) => ({ id, plan: 'free', keys: [{ id, sha256 }] })),
        routes: [
          {
            name: 'listPets',
            match: 'GET /pets',
            deprecated: { since: '2025-12-05', sunset: '2030-12-05' },
          },
        ],
      }
      writeFileSync(file, JSON.stringify(config))
      const command = [script('../src/main.ts'), 'start', '--config', file] as const
      const order = { name, command: [...command] as [string, ...string[]], own: false }
      return (await processes.launch({ ...order, listener: 'tollgate' })).origin
    },
  }
}

const charged = 'a request is counted before it is judged'

const ofNode = (
  name: string,
  label: string,
  file: string,
  documented: Subject['documented'],
): Subject => ({
  name,
  label,
  documented,
  async start({ processes, backend, limits }) {
    const { url } = await processes.redis()
    const config: PeerConfig = {
      backend,
      redis: url,
      pipelined: true,
      plan: 'free',
      limits,
      clients,
    }
    const configFile = join(processes.directory, `${name}.json`)
    writeFileSync(configFile, JSON.stringify(config))
    const command: [string, string] = [script(`peers/${file}`), configFile]
    return (await processes.launch({ name, command, listener: name, own: true })).origin
  },
})

const subjects: readonly Subject[] = [
  tollgate('tollgate', 'Tollgate', {}),
  tollgate('tollgate-4', 'Tollgate, 4 workers', { workers: 4 }),
  tollgate('tollgate-redis', 'Tollgate, Redis', { isOnRedis: true }),
  {
    name: 'nginx-lua',
    label: 'nginx + Lua + Redis',
    documented: { 'refused-free': charged },
    async start({ processes: { directory, redis, launch }, backend, limits }) {
      const { port: redisPort } = await redis()
      const given = { plan: 'free', limits, clients, redisPort }
      return (await launch(await nginx({ name: 'nginx-lua', directory, backend, limits: given })))
        .origin
    },
  },
  ofNode('fastify', 'fastify', 'fastify-http-proxy.ts', {
    day: '@fastify/rate-limit has one window for a route',
  }),
  ofNode('plain', 'plain wiring', 'plain-http-proxy.ts', { 'refused-free': charged }),
  ofNode('express', 'express', 'express-http-proxy-middleware.ts', { 'refused-free': charged }),
]

/** All subjects with these limits, one after the other; in a folder of their own, as some name their files alike. */
async function startAll(processes: Processes, limits: Limits): Promise<string[]> {
  const command: [string] = [script('backend.ts')]
  const order = { name: 'backend', command, listener: 'backend', own: true }
  const world = { processes, backend: (await processes.launch(order)).origin, limits }
  const origins: string[] = []
  for (const subject of subjects) origins.push(await subject.start(world))
  return origins
}

const judgeAll = (origins: string[], limits: Limits, only: string[]): Promise<Report[]> => {
  const keys = clients.map(({ key }) => key)
  return Promise.all(
    origins.map((origin) => runSuite({ url: new URL(origin), path, limits, keys, only })),
  )
}

type Column = Subject & { readonly rows: ReadonlyMap<string, Row> }

const cell = ({ documented, rows }: Column, name: string): string => {
  const verdict = rows.get(name)?.verdict ?? 'cannot tell'
  if (verdict === 'broken') return name in documented ? 'otherwise' : '**broken**'
  return verdict === 'holds' ? 'holds' : verdict === 'not claimed' ? '–' : '?'
}

const listed = (columns: readonly Column[], wanted: (mark: string) => boolean): string[] =>
  columns.flatMap((column) =>
    rules
      .filter(({ name }) => wanted(cell(column, name)))
      .map(({ name }) => {
        const why = column.documented[name]
        const seen = column.rows.get(name)?.seen ?? ''
        return `- ${column.label}, \`${name}\`: ${seen}${why === undefined ? '' : ` (${why})`}`
      }),
  )

function versions(): string {
  const names = ['@fastify/http-proxy', '@fastify/rate-limit', 'express', 'express-rate-limit']
  names.push('fastify', 'http-proxy-3', 'http-proxy-middleware', 'ioredis')
  names.push('rate-limit-redis', 'rate-limiter-flexible')
  const of = (name: string): string => {
    const files = ['node_modules', '../node_modules'].map((at) =>
      script(`${at}/${name}/package.json`),
    )
    const file = files.find((each) => existsSync(each))
    const { version } = JSON.parse(readFileSync(file ?? '', 'utf8')) as { version: string }
    return `${name} ${version}`
  }
  const told = spawnSync(findNginx() ?? 'nginx', ['-v'], { encoding: 'utf8' }).stderr
  const redis = execFileSync('redis-server', ['--version'], { encoding: 'utf8' })
  const servers = [/nginx\/\S+/.exec(told)?.[0], `Redis ${/v=(\S+)/.exec(redis)?.[1]}`]
  return [`Node.js ${process.versions.node}`, ...servers, ...names.map(of)].join(', ')
}

function markdown(columns: readonly Column[], seconds: number): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  const table = [
    line(['rule', ...columns.map(({ label }) => label)]),
    line(['-', ...columns.map(() => '-')]),
    ...rules.map(({ name }) => line([`\`${name}\``, ...columns.map((each) => cell(each, name))])),
  ]
  const cannot = listed(columns, (mark) => mark === '?')
  return [
    `Taken on ${new Date().toISOString().slice(0, 10)} in ${seconds} s, all at the same time: ${versions()}.`,
    table.join('\n'),
    '**broken**: seen, and what was seen; *otherwise*: broken, and documented so; `–`: not claimed, as no such field is sent; `?`: could not be told.',
    '### What was seen',
    listed(columns, (mark) => mark === '**broken**').join('\n'),
    '### Otherwise, as documented',
    listed(columns, (mark) => mark === 'otherwise').join('\n'),
    ...(cannot.length > 0 ? ['### Could not be told', cannot.join('\n')] : []),
  ].join('\n\n')
}

function write(place: string, text: string): void {
  const file = join(import.meta.dirname, '../docs/conformance.md')
  const [start, end] = [`<!-- ${place} -->`, `<!-- /${place} -->`]
  const page = readFileSync(file, 'utf8')
  const [from, to] = [page.indexOf(start) + start.length, page.indexOf(end)]
  if (to < from) throw new Error(`${file} has no place marked for the results`)
  writeFileSync(file, `${page.slice(0, from)}\n\n${text}\n\n${page.slice(to)}`)
}

const startedMs = Date.now()
const both = [createProcesses(undefined), createProcesses(undefined)] as const
const stopAll = () => Promise.all(both.map((each) => each.stopAll()))
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void stopAll().finally(() => process.exit(1)))
try {
  const origins = await startAll(both[0], everything)
  const others = await startAll(both[1], smallDay)
  const [main, small] = await Promise.all([
    judgeAll(origins, everything, []),
    judgeAll(others, smallDay, ofDay),
  ])
  const columns = subjects.map((subject, at) => {
    const later = small[at]?.checks.filter(({ group }) => ofDay.includes(group)) ?? []
    const rows = new Map([...(main[at]?.checks ?? []), ...later].map((row) => [row.name, row]))
    return { ...subject, rows }
  })
  const text = markdown(columns, Math.round((Date.now() - startedMs) / 1_000))
  console.log(text)
  if (process.argv.includes('--write')) {
    const lines = rules.map(({ name, rule, source }) => `| \`${name}\` | ${rule} | ${source} |`)
    write('rules', ['| name | rule | source |', '| - | - | - |', ...lines].join('\n'))
    write('results', text)
  }
} finally {
  await stopAll()
}
