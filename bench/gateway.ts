/** Starts a gateway from the sources with a configuration of the bench. */
import { execFileSync } from 'node:child_process'
import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { script, type LaunchOrder, type Launched, type Processes } from './processes.ts'
import type { BenchClient } from './workload.ts'

type Section = Readonly<Record<string, unknown>>

/** Sections of the configuration, to be laid over those that every gateway of the bench has. */
export type GatewayConfig = Readonly<Record<string, Section | unknown[] | undefined>>

export interface GatewayOrder extends Pick<LaunchOrder, 'probe' | 'openFiles'> {
  readonly name: string
  readonly config: GatewayConfig
}

export interface Gateway extends Launched {
  readonly admin: string
  /** Scheme, host and port of the probe; undefined without one. */
  readonly probe: string | undefined
  readonly startSeconds: number
  /** The size of what it has logged since the log was emptied. */
  logBytes(): number
}

/** Access log and metrics stay on, as in production. */
const common: Readonly<Record<string, Section>> = {
  server: { listen: '127.0.0.1:0', basePath: '/v1' },
  admin: { listen: '127.0.0.1:0' },
  store: { redis: '', file: '' },
  plans: { enterprise: { custom: true } },
  log: { level: 'info', access: true },
}

/** Routes of the demonstration, and limits on anonymous callers and on strikes that no run reaches. */
export const openPolicy: GatewayConfig = {
  anonymous: { perMinute: 1_000_000_000 },
  // Without grace each refusal counts as a strike.
  bans: { strikes: 1_000_000, within: '1s', grace: '0s' },
  routes: [
    { name: 'listPets', match: 'GET /pets' },
    { name: 'createPet', match: 'POST /pets' },
    { name: 'getPet', match: 'GET /pets/{petId}' },
    { name: 'listOrders', match: 'GET /store/orders' },
  ],
}

/** The load comes from this machine and keeps it busy: no lateness of the event loop, no number of connections and no body is too much. */
export const loadedFromHere = {
  overload: { lag: '1m' },
  limits: { connectionsPerAddress: 20_000, bodyBytes: '16MiB' },
}

/** Entries of `clients`, each with one key, of a plan or with limits of its own. */
export const clientEntries = (
  clients: readonly BenchClient[],
  terms: { readonly plan: string } | { readonly limits: object },
): object[] =>
  clients.map(({ id, sha256 }) => ({
    id,
    plan: 'enterprise',
    ...terms,
    keys: [{ id: `${id}-key`, sha256 }],
  }))

export async function startGateway(
  processes: Processes,
  { name, config, probe = false, openFiles }: GatewayOrder,
): Promise<Gateway> {
  const file = join(processes.directory, `${name}.json`)
  writeFileSync(file, JSON.stringify(overlaid(config)))
  const startedMs = performance.now()
  const launched = await processes.launch({
    name,
    command: [script('../src/main.ts'), 'start', '--config', file],
    listener: 'tollgate',
    own: false,
    probe,
    openFiles,
  })
  return {
    ...launched,
    startSeconds: (performance.now() - startedMs) / 1000,
    admin: await launched.listening('admin'),
    probe: probe ? await launched.listening('probe') : undefined,
    logBytes: () => statSync(launched.logFile).size,
  }
}

function overlaid(config: GatewayConfig): object {
  const sections = Object.entries(config).map(([name, section]) => [
    name,
    Array.isArray(section) ? section : { ...common[name], ...section },
  ])
  return { ...common, ...(Object.fromEntries(sections) as object) }
}

/** Paths of PEM files. */
export type Certificate = ReturnType<typeof makeCertificate>

/** A certificate that nobody checks. */
export function makeCertificate(directory: string) {
  const [cert, key] = [join(directory, 'tls.pem'), join(directory, 'tls.key')]
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const made = ['-days', '2', '-subj', '/CN=bench.example', '-keyout', key, '-out', cert]
  execFileSync('openssl', ['req', '-x509', ...curve, ...made], { stdio: 'ignore' })
  return { cert, key }
}
