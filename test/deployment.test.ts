/** Holds the container files, the alerts and the dashboard against the project as it is. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join, normalize } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { renderSnapshots } from '../src/core/record/metric-registry.ts'
import { createMetrics } from '../src/core/record/metrics.ts'
import { refuseDemoKeys } from '../src/cli/usable-config.ts'
import { loadConfig } from '../src/config/clients/load.ts'
import { ConfigError } from '../src/config/problems.ts'
import { productionEnv } from './config/examples.ts'
import { refusalKinds } from '../src/core/rules/refusals.ts'
import { finished } from './support/finished.ts'
import { gatewayRegistry } from './support/gateway-registry.ts'
import { balancerOf } from './support/balancer.ts'
import { ensurePackage } from './support/debian-package.ts'
import { durations } from '../src/config/scalars.ts'

const root = join(import.meta.dirname, '..')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const inProject = (path: string): boolean => existsSync(join(root, path))

interface Service {
  readonly build?: string
  readonly command?: readonly string[]
  readonly environment?: object
  readonly volumes?: readonly string[]
  readonly ports?: readonly string[]
  readonly networks?: readonly string[]
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly healthcheck?: object
  readonly stop_grace_period?: string
}
type Compose = Record<'services', Record<string, Service>> & Record<'volumes', object>
type PackageFile = Record<'engines', { node: string }> & Record<'scripts', object>

const dockerfile = read('Dockerfile').replaceAll(/\\\n/g, ' ').split('\n')
const instructions = (name: string): string[] =>
  dockerfile
    .filter((line) => line.startsWith(`${name} `))
    .map((line) => line.slice(name.length + 1))
const compose = parse(read('compose.yaml')) as Compose
const services = Object.entries(compose.services)
const service = (name: string): Service => compose.services[name] ?? {}
const packageFile = JSON.parse(read('package.json')) as PackageFile

const [one, other] = ['a'.repeat(64), 'b'.repeat(64)]
const env = { TOLLGATE_KEY_SHA256: one, TOLLGATE_ADMIN_TOKEN_SHA256: other }
const config = await loadConfig(join(root, 'config/compose.yaml'), env)

describe('the image', () => {
  const copies = instructions('COPY').map((line) => line.split(/\s+/))

  it('copies from the checkout by name, so that nothing beside it can slip in, and what its build makes', () => {
    const { compilerOptions } = JSON.parse(read('src/tsconfig.json')) as {
      compilerOptions: { outDir: string }
    }
    const isOfBuild = ([first = '']: string[]): boolean => first.startsWith('--from=')
    const made = copies.filter(isOfBuild).flatMap((words) => words.slice(1, -1))
    const out = normalize(join('src', compilerOptions.outDir))
    expect(new Set([`/build/${out}/`, '/build/node_modules/'])).toEqual(new Set(made))
    const sources = copies
      .filter((words) => !isOfBuild(words))
      .flatMap((words) => words.slice(0, -1))
    const named = ['package-lock.json', 'package.json', 'src/', 'tsconfig.json']
    expect([...new Set(sources)].sort()).toEqual(named)
    for (const source of named) expect(inProject(source), source).toBe(true)
  })

  it('runs on a release of Node.js that the package takes', () => {
    const oldest = Number(/^>=(\d+)/.exec(packageFile.engines.node)?.[1])
    for (const line of instructions('FROM'))
      expect(Number(/^node:(\d+)-slim\b/.exec(line)?.[1]), line).toBeGreaterThan(oldest)
  })

  it('builds with a script there is, and starts what the build writes, without root', () => {
    for (const [, script = ''] of dockerfile.join('\n').matchAll(/npm run (\w+)/g))
      expect(packageFile.scripts).toHaveProperty(script)
    expect(instructions('ENTRYPOINT')).toEqual(['["node", "dist/main.js"]'])
    expect(inProject('src/main.ts')).toBe(true)
    expect(JSON.parse(instructions('CMD')[0] ?? '')).toEqual(service('gateway').command)
    expect(instructions('USER')).toEqual(['node'])
  })

  it('asks the admin listener of the configuration for its health', () => {
    const [check = ''] = instructions('HEALTHCHECK')
    expect(check).toContain(`http://127.0.0.1:${config.admin.listen.port}/healthz`)
  })
})

describe('compose.yaml', () => {
  it('mounts only files that exist and volumes that it declares', () => {
    const mounts = services.flatMap(([, { volumes }]) => volumes ?? [])
    expect(mounts.length).toBeGreaterThan(3)
    for (const mount of mounts) {
      const source = mount.split(':')[0] ?? ''
      const isThere = source.startsWith('./') ? inProject(source) : source in compose.volumes
      expect(isThere, mount).toBe(true)
    }
  })

  it('runs commands that tollgate has', () => {
    const built = services.filter(([, { build }]) => build !== undefined)
    expect(built.map(([name]) => name)).toEqual(['gateway', 'catalogue'])
    for (const [name, { command = [] }] of built) {
      const main = join(root, 'src/main.ts')
      const help = spawnSync(process.execPath, [main, command[0] ?? '', '--help'])
      expect(help.status, name).toBe(0)
      for (const option of command.filter((word) => word.startsWith('--')))
        expect(help.stdout.toString()).toContain(`${option} <`)
    }
  })

  it('waits for services that can say they are healthy', () => {
    for (const [name, { depends_on: needs = {} }] of services) {
      for (const [needed, { condition }] of Object.entries(needs)) {
        expect(condition).toBe('service_healthy')
        expect(service(needed).healthcheck, `${name} needs ${needed}`).toBeDefined()
      }
    }
  })

  it('publishes ports on loopback only, and those of the gateway where it listens', () => {
    for (const port of services.flatMap(([, { ports }]) => ports ?? []))
      expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/)
    const inside = service('gateway').ports?.map((port) => Number(port.split(':')[2]))
    expect(inside).toEqual([config.server.listen.port, config.admin.listen.port])
    expect(service('catalogue').ports).toBeUndefined()
    expect(service('redis').ports).toBeUndefined()
  })

  it('gives the gateway longer to stop than it takes to drain', () => {
    const graceMs = durations.parse(service('gateway').stop_grace_period ?? '') ?? 0
    expect(graceMs).toBeGreaterThan(config.server.timeouts.drainMs)
  })
})

describe('config/compose.yaml', () => {
  it('is mounted where the gateway looks for it', () => {
    const { volumes = [], command = [] } = service('gateway')
    expect(volumes).toContain(`./config/compose.yaml:${command.at(-1)}:ro`)
  })

  it('needs no variable that compose.yaml does not pass, and needs the digest', async () => {
    expect(Object.keys(service('gateway').environment ?? {})).toEqual(Object.keys(env))
    await expect(loadConfig(join(root, 'config/compose.yaml'), {})).rejects.toThrow(ConfigError)
  })

  it('names the services of compose.yaml and shares a network with them', () => {
    const { redis } = config.store
    const hosts = [
      ...config.upstream.urls.map((url) => new URL(url).hostname),
      redis?.kind === 'server' ? redis.addresses[0]?.host : undefined,
    ]
    expect(hosts).toEqual(['catalogue', 'redis'])
    for (const host of ['catalogue', 'redis']) {
      const shared = service(host).networks?.filter((name) =>
        service('gateway').networks?.includes(name),
      )
      expect(shared, host).toHaveLength(1)
    }
    const port = service('catalogue')
      .command?.find((word) => word.startsWith('0.0.0.0:'))
      ?.split(':')[1]
    expect(new URL(config.upstream.urls[0] ?? '').port).toBe(port)
  })

  it('opens no demo key to the network', () => {
    expect(config.server.listen.host).toBe('0.0.0.0')
    expect(refuseDemoKeys(config)).toBeUndefined()
  })
})

const production = await loadConfig(join(root, 'config/production.yaml'), productionEnv)

describe('deploy/haproxy.cfg', () => {
  // That HAProxy takes it, and what it is good for, shows test/process/rolling-restart.test.ts.
  const settings = read('deploy/haproxy.cfg').replaceAll(/^ *#.*\n/gm, '')
  const ms = (setting: string): number => {
    const [, duration = ''] = new RegExp(`\\b${setting} (\\S+)`).exec(settings) ?? []
    return durations.parse(duration) ?? NaN
  }
  const { server, upstream, admin } = production

  it('sees a gateway drain before it stops taking requests', () => {
    const [, fall] = /\bfall (\d+)/.exec(settings) ?? []
    expect(Number(fall) * ms('inter') + ms('timeout check')).toBeLessThan(
      server.timeouts.drainDelayMs,
    )
  })

  it('leaves it to the gateway to give up on a backend or an idle WebSocket', () => {
    expect(ms('timeout server')).toBeGreaterThan(
      upstream.timeouts.responseMs + 2 * upstream.timeouts.connectMs,
    )
    expect(ms('timeout tunnel')).toBeGreaterThan(server.timeouts.tunnelIdleMs)
  })

  it('asks where the gateway listens', () => {
    expect(settings).toContain(`check port ${admin.listen.port} `)
    const ports = Array.from(settings.matchAll(/^ +server \S+ [\d.]+:(\d+)$/gm), ([, port]) =>
      Number(port),
    )
    expect(ports).toEqual([server.listen.port, server.listen.port])
  })
})

/** Families of the page with the labels of their samples; every labelled counter has been used once. */
async function families(): Promise<Map<string, Set<string>>> {
  const route = 'listPets'
  const names = { plans: ['pro'], routes: [route] }
  const metrics = createMetrics({ version: '1', registry: gatewayRegistry(), ...names })
  metrics.keySetFetched(true)
  metrics.watchBackends(() => balancerOf(['http://a']))
  metrics.requests.done(...finished({ route, deprecated: true }))
  metrics.requests.shadowRefused('pro', 'minute')
  const found = new Map<string, Set<string>>()
  for (const line of (await renderSnapshots([await metrics.snapshot()])).split('\n')) {
    const [, name = '', labels = ''] = /^([a-z_0-9]+)(?:\{(.*)\})? /.exec(line) ?? []
    const names = Array.from(labels.matchAll(/([a-z_]+)="/g), ([, label = '']) => label)
    if (name !== '') found.set(name, new Set([...(found.get(name) ?? []), ...names]))
  }
  return found
}

type RuleGroup = Record<'rules', { alert: string; expr: string }[]>
const { groups } = parse(read('config/prometheus/alerts.yml')) as { groups: RuleGroup[] }
const rules = groups.flatMap((group) => group.rules)
const alertExpressions = rules.map(({ expr }) => expr)
interface Panel {
  readonly title: string
  readonly gridPos: Record<'x' | 'y' | 'w' | 'h', number>
  readonly targets?: readonly { readonly expr: string }[]
}
const { panels } = JSON.parse(read('config/grafana/dashboard.json')) as { panels: Panel[] }
const panelExpressions = panels.flatMap(({ targets }) => targets?.map(({ expr }) => expr) ?? [])

const metricName = /\b(?:tollgate|nodejs|process)_[a-z0-9_]+/g
const page = await families()
/** Labels that Prometheus itself adds, as config/prometheus/prometheus.yml tells it. */
const scrapeLabels = ['instance', 'job', 'environment']

describe('alerts and dashboard', () => {
  it.each([...alertExpressions, ...panelExpressions])(
    'asks for what the gateway exports: %s',
    (expr) => {
      const names = expr.match(metricName) ?? []
      for (const name of names) expect(page.has(name), name).toBe(true)
      const own = names.flatMap((name) => [...(page.get(name) ?? [])])
      const asked = [
        ...Array.from(expr.matchAll(/\bby \(([^)]*)\)/g), ([, list = '']) => list.split(/,\s*/)),
        ...Array.from(expr.matchAll(/([a-z_]+)\s*(?:=~|!~|!=|=)\s*"/g), ([, label = '']) => [
          label,
        ]),
      ].flat()
      for (const label of asked) expect([...own, ...scrapeLabels], expr).toContain(label)
      expect(expr.split('(').length).toBe(expr.split(')').length)
    },
  )

  it('ask for refusal codes there are', () => {
    const codes = [...alertExpressions, ...panelExpressions].flatMap((expr) =>
      Array.from(expr.matchAll(/code=~?"([^"]+)"/g), ([, list = '']) => list.split('|')).flat(),
    )
    expect(codes.length).toBeGreaterThan(2)
    for (const code of codes) expect(refusalKinds).toHaveProperty(code)
  })

  it('have panels that do not lie over one another', () => {
    for (const [at, one] of panels.entries())
      for (const other of panels.slice(at + 1)) {
        const [a, b] = [one.gridPos, other.gridPos]
        const isBeside =
          a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y
        expect(isBeside, `${one.title} and ${other.title}`).toBe(true)
      }
  })

  it('show every metric of the gateway', () => {
    const shown = panelExpressions.join('\n')
    const own = [...page.keys()].filter((name) => name.startsWith('tollgate_'))
    expect(own.length).toBeGreaterThan(20)
    for (const name of own) expect(shown, name).toContain(name.replace(/_(sum|count)$/, '_bucket'))
  })

  it('scrape the gateway where it serves its metrics', () => {
    const { scrape_configs: jobs, rule_files: files } = parse(
      read('config/prometheus/prometheus.yml'),
    ) as { scrape_configs: { job_name: string; static_configs: object[] }[]; rule_files: string[] }
    const targets = [`gateway:${config.admin.listen.port}`]
    expect(jobs.flatMap((job) => job.static_configs)).toMatchObject([{ targets }])
    for (const file of files) expect(inProject(`config/prometheus/${file}`)).toBe(true)
    expect(alertExpressions.join('\n')).toContain(`job="${jobs[0]?.job_name}"`)
  })
})

describe('the cases of the alerts', () => {
  type RuleTest = Record<'alert_rule_test', { alertname: string; exp_alerts: unknown[] }[]>
  const { tests } = parse(read('config/prometheus/tests/alerts.yml')) as { tests: RuleTest[] }
  const cases = tests.flatMap((one) => one.alert_rule_test)
  const alerts = rules.map(({ alert }) => alert)

  it.each(alerts)('have one in which %s fires, and one in which it does not', (alert) => {
    const expected = cases.filter((one) => one.alertname === alert)
    expect(expected.some(({ exp_alerts }) => exp_alerts.length > 0)).toBe(true)
    expect(expected.some(({ exp_alerts }) => exp_alerts.length === 0)).toBe(true)
  })

  it('hold, as Prometheus itself judges them', () => {
    ensurePackage('prometheus', { probe: ['promtool', '--version'] })
    const promtool = (...args: string[]): string =>
      execFileSync('promtool', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' })
    expect(promtool('check', 'rules', 'config/prometheus/alerts.yml')).toContain('SUCCESS')
    expect(promtool('test', 'rules', 'config/prometheus/tests/alerts.yml')).toContain('SUCCESS')
  }, 300_000)
})
