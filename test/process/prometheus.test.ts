/** A real Prometheus scrapes a gateway of two workers under load: every query of the board and every alert is asked of it. */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { atEnd } from '../support/ending.ts'
import { ensurePackage } from '../support/debian-package.ts'
import { configText, keys } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { answer } from '../support/raw-backend.ts'
import { freePort } from '../support/redis-server.ts'
import { eventually, gatewayProcess, startRawBackend, type GatewayProcess } from './gateways.ts'

const root = join(import.meta.dirname, '../..')
const alertsFile = join(root, 'config/prometheus/alerts.yml')

interface Board {
  readonly panels: readonly {
    readonly title: string
    readonly targets?: readonly { readonly expr: string }[]
  }[]
  readonly templating: { readonly list: readonly { readonly name: string }[] }
}
const board = JSON.parse(readFileSync(join(root, 'config/grafana/dashboard.json'), 'utf8')) as Board
const queries = board.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ title, expr })),
)
const { groups } = parse(readFileSync(alertsFile, 'utf8')) as {
  groups: { rules: { alert: string; expr: string }[] }[]
}
const alerts = groups.flatMap(({ rules }) => rules)

/** What this load does not fill, and why. */
const unfilled: readonly (readonly [RegExp, string])[] = [
  [/tollgate_jwks_age_seconds/, 'no token issuer is configured'],
  [/tollgate_(?:http2_abuse|tls_handshakes_failed)_total.*> 0/s, 'nobody speaks HTTP/2 or TLS'],
  [/tollgate_connections_(?:refused|displaced)_total.*> 0/s, 'no bound of connections is reached'],
  [/tollgate_tunnels_closed_total.*> 0/s, 'there are no WebSockets'],
  [/tollgate_backend_surplus_total.*> 0/s, 'no backend answers twice'],
  [/tollgate_tls_certificate_expiry_seconds/, 'nothing has a certificate'],
]

let gateway: GatewayProcess
let prometheus: string

beforeAll(async () => {
  const respond = ({ target }: { target: string }) => answer(target.endsWith('/fail') ? 500 : 200)
  const backend = await startRawBackend({ respond })
  const dead = `http://127.0.0.1:${await freePort()}`
  const blocks = {
    server: 'server: { listen: "127.0.0.1:0", workers: 2 }',
    admin: 'admin: { listen: "127.0.0.1:0", topClients: 2 }',
    upstream: `upstream: { urls: [${backend.url}, ${dead}], balance: round-robin }`,
    plans: `plans:
  free: { perMinute: 60, perDay: 1000 }
  pro: { perMinute: 300, perDay: 10000 }
  business: { perMinute: 1000, perDay: 100000 }
  enterprise: { custom: true, concurrent: 10000, shadow: { perMinute: 25, perDay: 100000 } }`,
    bans: 'bans: { strikes: 5, within: 1m, grace: 0s, duration: 1m, maxDuration: 1m }',
  }
  gateway = await gatewayProcess(
    temporaryFile('gateway.yaml', configText({ upstreams: [], blocks })),
  )
  prometheus = await startPrometheus(new URL(gateway.adminOrigin).host)
})

async function startPrometheus(target: string): Promise<string> {
  ensurePackage('prometheus', { probe: ['prometheus', '--version'] })
  const config = temporaryFile(
    'prometheus.yml',
    `global: { scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms }
rule_files: [${alertsFile}]
scrape_configs:
  - job_name: tollgate
    static_configs: [{ targets: ["${target}"], labels: { environment: test } }]
`,
  )
  const address = `127.0.0.1:${await freePort()}`
  const storage = `--storage.tsdb.path=${temporaryFolder()}`
  const args = [`--config.file=${config}`, `--web.listen-address=${address}`, storage]
  const child = spawn('prometheus', args, { stdio: 'ignore' })
  const ended = new Promise((resolve) => child.once('close', resolve))
  atEnd(() => (child.kill('SIGKILL'), ended))
  await eventually('Prometheus is ready', () =>
    fetch(`http://${address}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  return `http://${address}`
}

/** A bit of everything that a client may do. */
async function load(): Promise<void> {
  const ask = (key?: string, path?: string) => gateway.call(key, path)
  await Promise.all([
    ...Array.from({ length: 20 }, () => ask(keys.enterprise)),
    ...Array.from({ length: 5 }, () => ask(keys.pro, '/v1/pets/7')),
    ...Array.from({ length: 25 }, () => ask(keys.free)),
    ask(keys.pro, '/v1/pets/fail'),
    ask('tg_test_unknown'),
    ask(),
  ])
}

async function seriesOf(expr: string): Promise<number> {
  const query = expr.replaceAll('$__rate_interval', '30s').replaceAll('$instance', '.*')
  const body = new URLSearchParams({ query })
  const reply = await fetch(`${prometheus}/api/v1/query`, { method: 'POST', body })
  const { status, error, data } = (await reply.json()) as {
    status: string
    error?: string
    data?: { result: unknown[] }
  }
  expect(error, expr).toBeUndefined()
  expect(status).toBe('success')
  return data?.result.length ?? 0
}

const reasonFor = (expr: string): string | undefined =>
  unfilled.find(([pattern]) => pattern.test(expr))?.[1]

describe('with data of a loaded gateway', () => {
  beforeAll(async () => {
    // What there is of a counter when it is first seen is no increase.
    const seen = 'count(tollgate_refusals_total{window="minute"}) and on () up == 1'
    await eventually('the gateway is seen', async () => (await seriesOf(seen)) > 0)
    const busy = 'tollgate_top_client_requests{client="enterprise-client"}'
    const full = 'sum(rate(tollgate_refusals_total{window="minute"}[30s])) > 0'
    await eventually('the load shows', async () => {
      await load()
      const tried = 'sum(rate(tollgate_shadow_refusals_total[30s])) > 0'
      const wanted = [full, tried, 'tollgate_backend_up == 0', `${busy} >= 20`]
      return (await Promise.all(wanted.map(seriesOf))).every((series) => series > 0)
    })
  })

  it('every query of the board is answered, and has data where the load must fill it', async () => {
    expect(queries.length).toBeGreaterThan(40)
    const wrong = async (): Promise<string[]> => {
      const found: string[] = []
      for (const { title, expr } of queries) {
        const isFilled = (await seriesOf(expr)) > 0
        if (isFilled === (reasonFor(expr) !== undefined)) found.push(`${title}: ${expr}`)
      }
      return found
    }
    // Where a scrape came too late, there is nothing until the next one.
    await expect.poll(wrong).toEqual([])
  })

  it('the busiest clients are named, no more than are asked for', async () => {
    const top = 'tollgate_top_client_requests'
    expect(await seriesOf(top)).toBe(2)
    expect(await seriesOf(`${top}{client="enterprise-client"} >= 20`)).toBe(1)
  })

  it('every alert can be judged, and what it compares has data', async () => {
    for (const { alert, expr } of alerts) {
      const compared = expr.replace(/\s(?:==|[<>])\s*[\d.]+\s*$/, '')
      expect(compared, alert).not.toBe(expr)
      if (reasonFor(compared) !== undefined) continue
      await expect.poll(() => seriesOf(compared), { message: alert }).toBeGreaterThan(0)
    }
    const rules = async () => {
      const { data } = (await (await fetch(`${prometheus}/api/v1/rules`)).json()) as {
        data: { groups: { rules: { name: string; health: string; lastError?: string }[] }[] }
      }
      return data.groups.flatMap((group) => group.rules)
    }
    await eventually('all are judged', async () =>
      (await rules()).every(({ health }) => health !== 'unknown'),
    )
    expect((await rules()).map(({ name }) => name)).toEqual(alerts.map(({ alert }) => alert))
    expect((await rules()).filter(({ health }) => health !== 'ok')).toEqual([])
  })
})
