/**
 * `node bench/conformance.ts [--write]`: the conformance suite against Tollgate and its peers, all at once. Each is started twice:
 * with the limits of the free plan for everything, and with a day that two minutes use up for what concerns the day.
 */
import { parseArgs } from 'node:util'
import { rules } from '../src/tools/conformance/rules.ts'
import { runSuite, type Report, type Row } from '../src/tools/conformance/suite.ts'
import { runCommand } from './command.ts'
import { clientEntries, startGateway } from './gateway.ts'
import { peerVersions, today, versions } from './machine.ts'
import { replaceBlock, table } from './markdown.ts'
import { script, withProcesses, type Processes } from './processes.ts'
import { ampleTerms, fastifySubject, nginxSubject, startBackend } from './subjects.ts'
import { ampleClients } from './workload.ts'

const everything = { perMinute: 60, perDay: 1000 }
/** The second minute uses it up: what a refusal costs shows in what is left for that. */
const smallDay = { perMinute: 20, perDay: 30 }
const ofDay = ['refused', 'day']
const clients = ampleClients.slice(0, 20)
const keys = clients.map(({ key }) => key)

const deprecated = { since: '2025-12-05', sunset: '2030-12-05' }

interface Peer {
  readonly label: string
  /** By check: what its packages do not say that they do, or say that they do in another way. */
  readonly documented: Readonly<Record<string, string>>
  start: typeof fastifySubject
}

const tollgate = (label: string, workers: number, isOnRedis = false): Peer => ({
  label,
  documented: {},
  start: async (processes, { name, backend }, { limits }) => {
    const redis = isOnRedis ? (await processes.redis()).url : ''
    const config = {
      server: { workers },
      upstream: { urls: [backend] },
      store: { redis },
      plans: { free: limits },
      clients: clientEntries(clients, { plan: 'free' }),
      routes: [{ name: 'listPets', match: 'GET /pets', deprecated }],
    }
    return { server: await startGateway(processes, { name, config }) }
  },
})

const peers: readonly Peer[] = [
  tollgate('Tollgate', 1),
  tollgate('Tollgate, 4 workers', 4),
  tollgate('Tollgate, Redis', 1, true),
  {
    label: 'nginx + Lua + Redis',
    documented: { 'refused-free': 'a request is counted before it is judged' },
    start: (processes, order, terms) => nginxSubject(processes, order, { terms }),
  },
  {
    label: 'fastify',
    documented: { day: '@fastify/rate-limit has one window for a route' },
    start: fastifySubject,
  },
]

/** All peers with these limits, one after the other. */
async function startAll(processes: Processes, limits: typeof everything): Promise<string[]> {
  const backend = (await startBackend(processes)).origin
  const terms = { ...ampleTerms, plan: 'free', limits }
  const origins: string[] = []
  for (const [nth, { start }] of peers.entries()) {
    const { server } = await start(processes, { name: `peer-${nth}`, backend }, terms)
    origins.push(server.origin)
  }
  return origins
}

const judgeAll = (
  origins: string[],
  limits: typeof everything,
  only: string[],
): Promise<Report[]> =>
  Promise.all(
    origins.map((origin) =>
      runSuite({ url: new URL(origin), path: '/v1/pets', limits, keys, only }),
    ),
  )

type Column = Peer & { readonly rows: ReadonlyMap<string, Row> }

const cell = ({ documented, rows }: Column, name: string): string => {
  const verdict = rows.get(name)?.verdict ?? 'cannot tell'
  if (verdict === 'broken') return name in documented ? 'otherwise' : '**broken**'
  return verdict === 'holds' ? 'holds' : verdict === 'not claimed' ? '–' : '?'
}

const listed = (columns: readonly Column[], wanted: string): string =>
  columns
    .flatMap((column) =>
      rules
        .filter(({ name }) => cell(column, name) === wanted)
        .map(({ name }) => {
          const why = column.documented[name]
          const seen = column.rows.get(name)?.seen ?? ''
          return `- ${column.label}, \`${name}\`: ${seen}${why === undefined ? '' : ` (${why})`}`
        }),
    )
    .join('\n')

function markdown(columns: readonly Column[], seconds: number): string {
  const lines = rules.map(({ name }) => [`\`${name}\``, ...columns.map((each) => cell(each, name))])
  return [
    `Taken on ${today()} in ${seconds} s, all at the same time: ${versions()}, ${peerVersions()}.`,
    table(['rule', ...columns.map(({ label }) => label)], lines, 'text'),
    '**broken**: seen, and what was seen; *otherwise*: broken, and documented so; `–`: not claimed, as no such field is sent; `?`: could not be told.',
    '### What was seen',
    listed(columns, '**broken**'),
    '### Otherwise, as documented',
    listed(columns, 'otherwise'),
    '### Could not be told',
    listed(columns, '?') || 'Nothing.',
  ].join('\n\n')
}

async function run(write: boolean): Promise<number> {
  const startedMs = Date.now()
  const [main, small] = await withProcesses(async (first) => {
    const origins = await startAll(first, everything)
    return withProcesses(async (second) => {
      const others = await startAll(second, smallDay)
      return Promise.all([judgeAll(origins, everything, []), judgeAll(others, smallDay, ofDay)])
    })
  })
  const columns = peers.map((peer, at) => {
    const later = small[at]?.checks.filter(({ group }) => ofDay.includes(group)) ?? []
    const rows = new Map([...(main[at]?.checks ?? []), ...later].map((row) => [row.name, row]))
    return { ...peer, rows }
  })
  const text = markdown(columns, Math.round((Date.now() - startedMs) / 1_000))
  console.log(text)
  if (!write) return 0
  const page = script('../docs/conformance.md')
  const lines = rules.map(({ name, rule, source }) => [`\`${name}\``, rule, source])
  await replaceBlock(page, 'rules', table(['name', 'rule', 'source'], lines, 'text'))
  await replaceBlock(page, 'results', text)
  return 0
}

await runCommand({
  usage: 'usage: node bench/conformance.ts [--write]',
  parse: () => parseArgs({ options: { write: { type: 'boolean', default: false } } }).values.write,
  run,
})
