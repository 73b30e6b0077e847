/** The processes of one series: a backend, a Redis, gateways and load generators, all ended together. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gatewayConfig } from '../gateway-config.ts'
import { createProcesses, type Launched } from '../processes.ts'
import { clientsConfig, type ClientGroup } from './clients.ts'
import type { IdleOrder, IdleOutcome } from './idle.ts'
import type { LoadOrder, LoadOutcome } from './load.ts'
import type { PacedOrder, PacedOutcome } from './paced-load.ts'
import type { ProbeAnswer } from './probe.ts'
import type { SoakCommand, SoakReport } from './soak-load.ts'

export interface FleetOrder {
  /** Letters and digits; different within one workbench. It is the prefix of the fleet's keys in Redis too. */
  readonly name: string
  readonly size: number
  readonly groups: readonly ClientGroup[]
  readonly backend: string
  /** undefined: the embedded store. */
  readonly redis: string | undefined
  /** With a probe a gateway can tell its heap after a collection. */
  readonly probe?: boolean
  /** Parts of the configuration to put in place of the bench's own. */
  readonly overrides?: Readonly<Record<string, object>>
}

export interface GrowthGateway extends Launched {
  readonly port: number
  readonly admin: string
  /** Seconds from the start of the process to its listener. */
  readonly startSeconds: number
  /** What it has logged since the log was emptied. */
  logBytes(): number
  /** After a full collection; only with a probe. */
  heap(): Promise<ProbeAnswer>
}

/** Load generators and what they are told. */
interface Generators {
  'load.ts': [LoadOrder, LoadOutcome]
  'paced-load.ts': [PacedOrder, PacedOutcome]
  'idle.ts': [IdleOrder, IdleOutcome]
  'soak-load.ts': [SoakCommand, SoakReport]
}

export interface Generator<Order, Outcome> {
  readonly pid: number
  ask(order: Order): Promise<Outcome>
}

/** endAllWorkbenches was called. */
export const isStopping = (): boolean => isEnding

export type Workbench = ReturnType<typeof createWorkbench>

const live = new Set<Workbench>()
let isEnding = false

/** Ends what every workbench has started, and lets no other begin; for signals. */
export async function endAllWorkbenches(): Promise<void> {
  isEnding = true
  await Promise.all([...live].map((workbench) => workbench.end()))
}

/** Throws once everything is to end. */
export function createWorkbench() {
  if (isEnding) throw new Error('the bench is stopping')
  const processes = createProcesses(undefined)
  const children = new Set<ChildProcess>()

  const gateway = async (order: FleetOrder, nth: number): Promise<GrowthGateway> => {
    const name = `${order.name}-${nth}`
    const config = join(processes.directory, `${order.name}.json`)
    if (nth === 0) writeFileSync(config, configText(order))
    const script = join(import.meta.dirname, '../../src/main.ts')
    const probeFlags = ['--expose-gc', '--import', join(import.meta.dirname, 'probe.ts')]
    const command = [...(order.probe ? probeFlags : []), script, 'start', '--config', config]
    const [first = script, ...rest] = command
    const startedMs = performance.now()
    const launched = await processes.launch({
      name,
      command: [first, ...rest],
      listener: 'tollgate',
      own: false,
    })
    const startSeconds = (performance.now() - startedMs) / 1000
    const admin = await launched.listening('admin')
    const probe = order.probe ? await launched.listening('probe') : undefined
    return {
      ...launched,
      port: Number(new URL(launched.origin).port),
      admin,
      startSeconds,
      logBytes: () => statSync(join(processes.directory, `${name}.log`)).size,
      heap: async () => {
        if (probe === undefined) throw new Error(`${name} was started without a probe`)
        return (await (await fetch(probe)).json()) as ProbeAnswer
      },
    }
  }

  let ending: Promise<void> | undefined
  const end = async (): Promise<void> => {
    // From here on nothing more is started, so that nothing outlives the bench.
    await Promise.all([processes.stopAll(), ...[...children].map(endChild)])
    live.delete(workbench)
  }

  const workbench = {
    directory: processes.directory,
    redis: () => processes.redis(),
    backend: (...args: string[]): Promise<Launched> =>
      processes.launch({
        name: 'backend',
        command: [join(import.meta.dirname, 'backend.ts'), ...args],
        listener: 'backend',
        own: true,
      }),
    /** Gateways with one configuration, started one after the other. */
    fleet: async (order: FleetOrder): Promise<readonly [GrowthGateway, ...GrowthGateway[]]> => {
      const first = await gateway(order, 0)
      const rest: GrowthGateway[] = []
      for (let nth = 1; nth < order.size; nth++) rest.push(await gateway(order, nth))
      return [first, ...rest]
    },
    generator: <File extends keyof Generators>(
      file: File,
    ): Generator<Generators[File][0], Generators[File][1]> => {
      if (processes.stopping()) throw new Error('the bench is stopping')
      const child = fork(join(import.meta.dirname, file), { execArgv: [] })
      children.add(child)
      return {
        pid: child.pid ?? 0,
        ask: async (order) => {
          if (!child.connected) throw new Error(`${file} has ended`)
          const ended = new AbortController()
          const exit = once(child, 'exit', { signal: ended.signal }).then(() => {
            throw new Error(`${file} ended without an answer`)
          })
          const reply = once(child, 'message', { signal: ended.signal })
          // A child that ends meanwhile is noticed by its exit.
          child.send(order, () => undefined)
          try {
            const [outcome] = (await Promise.race([reply, exit])) as [Generators[File][1]]
            return outcome
          } finally {
            // The wait that lost the race is told that it is over, which is of no interest.
            exit.catch(() => undefined)
            reply.catch(() => undefined)
            ended.abort()
          }
        },
      }
    },
    stopping: () => processes.stopping(),
    /** May be called twice. */
    end: (): Promise<void> => (ending ??= end()),
  }
  live.add(workbench)
  return workbench
}

/** The bench's configuration with these clients; JSON, which is YAML too. */
function configText({ name, groups, backend, redis, overrides = {} }: FleetOrder): string {
  const base = JSON.parse(gatewayConfig({ engine: 'direct', redis, backend })) as Record<
    string,
    object
  >
  return JSON.stringify({
    ...base,
    ...clientsConfig(groups),
    store: { ...base['store'], prefix: name },
    ...overrides,
  })
}

async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}
