/** What is measured: each scenario starts the processes under test and says what load it gets. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gatewayConfig } from './gateway-config.ts'
import type { PlainConfig } from './peers/plain-http-proxy.ts'
import type { Launched, Processes } from './processes.ts'
import type { Answer } from './verify.ts'
import { ampleClients, ampleLimits } from './workload.ts'

/** served: keys with quota. exhausted: keys whose day is used up, 429. unknown: keys nobody knows, 401. */
export type Load = 'served' | 'exhausted' | 'unknown'

export interface Subject {
  readonly server: Launched
  readonly redisPid: number | undefined
}

export interface World {
  readonly processes: Processes
  readonly backend: Launched
  /** The refusal that another scenario was seen to give. */
  readonly answerOf: (scenario: string) => Answer
}

export interface Scenario {
  readonly name: string
  readonly label: string
  readonly load: Load
  /** Stands in front of the backend, which must then see as many clients as there are keys, and no key. */
  readonly gateway: boolean
  /** Repeats the answer of this scenario, byte for byte. */
  readonly repeats?: string
  start(world: World): Promise<Subject>
}

const script = (name: string): string => join(import.meta.dirname, name)

function gateway(options: {
  readonly name: string
  readonly label: string
  readonly load: Load
  readonly engine: 'undici' | 'http-proxy-3'
  readonly store: 'embedded' | 'redis'
}): Scenario {
  return {
    ...options,
    gateway: true,
    start: async ({ processes, backend }) => {
      const redis = options.store === 'redis' ? await processes.redis() : undefined
      const file = join(processes.directory, `${options.name}.yaml`)
      writeFileSync(
        file,
        gatewayConfig({ engine: options.engine, redis: redis?.url, backend: backend.origin }),
      )
      const server = await processes.launch({
        name: options.name,
        command: [script('../src/main.ts'), 'start', '--config', file],
        listener: 'tollgate',
        own: false,
      })
      return { server, redisPid: redis?.pid }
    },
  }
}

function bareRefusal(name: string, label: string, repeats: string, load: Load): Scenario {
  return {
    name,
    label,
    load,
    repeats,
    gateway: false,
    start: async ({ processes, answerOf }) => {
      const file = join(processes.directory, `${name}.json`)
      writeFileSync(file, JSON.stringify(answerOf(repeats)))
      const server = await processes.launch({
        name,
        command: [script('fixed-answer.ts'), file],
        listener: 'fixed-answer',
        own: true,
      })
      return { server, redisPid: undefined }
    },
  }
}

const plain: Scenario = {
  name: 'plain',
  label: 'plain wiring, http-proxy-3 and rate-limiter-flexible, Redis',
  load: 'served',
  gateway: true,
  start: async ({ processes, backend }) => {
    const redis = await processes.redis()
    const file = join(processes.directory, 'plain.json')
    const config: PlainConfig = {
      backend: backend.origin,
      redis: redis.url,
      plan: 'enterprise',
      limits: ampleLimits,
      clients: ampleClients.map(({ id, sha256 }) => ({ id, sha256 })),
    }
    writeFileSync(file, JSON.stringify(config))
    const server = await processes.launch({
      name: 'plain',
      command: [script('peers/plain-http-proxy.ts'), file],
      listener: 'plain',
      own: true,
    })
    return { server, redisPid: redis.pid }
  },
}

export const scenarios: readonly Scenario[] = [
  {
    name: 'backend',
    label: 'bare backend, no gateway',
    load: 'served',
    gateway: false,
    start: ({ backend }) => Promise.resolve({ server: backend, redisPid: undefined }),
  },
  plain,
  ...(['undici', 'http-proxy-3'] as const).flatMap((engine) =>
    (['embedded', 'redis'] as const).map((store) =>
      gateway({
        name: `gateway-${engine}-${store}`,
        label: `gateway, ${engine}, ${store === 'redis' ? 'Redis' : 'embedded store'}`,
        load: 'served',
        engine,
        store,
      }),
    ),
  ),
  gateway({
    name: 'refusal-429',
    label: 'gateway, 429 (quota used up)',
    load: 'exhausted',
    engine: 'undici',
    store: 'embedded',
  }),
  bareRefusal('bare-429', 'bare node:http, the same 429 bytes', 'refusal-429', 'exhausted'),
  gateway({
    name: 'refusal-401',
    label: 'gateway, 401 (unknown key)',
    load: 'unknown',
    engine: 'undici',
    store: 'embedded',
  }),
  bareRefusal('bare-401', 'bare node:http, the same 401 bytes', 'refusal-401', 'unknown'),
]

export interface RatioSpec {
  readonly label: string
  readonly of: string
  readonly to: string
  readonly atMost?: number
}

/** Compared by total CPU per request. */
export const ratios: readonly RatioSpec[] = [
  {
    label: 'gateway (undici, embedded) / plain wiring',
    of: 'gateway-undici-embedded',
    to: 'plain',
    atMost: 0.55,
  },
  { label: 'gateway (undici, Redis) / plain wiring', of: 'gateway-undici-redis', to: 'plain' },
  {
    label: 'gateway (http-proxy-3, embedded) / plain wiring',
    of: 'gateway-http-proxy-3-embedded',
    to: 'plain',
  },
  {
    label: 'gateway (http-proxy-3, Redis) / plain wiring',
    of: 'gateway-http-proxy-3-redis',
    to: 'plain',
  },
  { label: '429 / bare node:http', of: 'refusal-429', to: 'bare-429' },
  { label: '401 / bare node:http', of: 'refusal-401', to: 'bare-401' },
]

/**
 * The scenarios whose name contains one of the words, and those they repeat; all where there are no words.
 * Throws where a word matches nothing.
 */
export function selectScenarios(words: readonly string[]): readonly Scenario[] {
  if (words.length === 0) return scenarios
  for (const word of words) {
    if (!scenarios.some(({ name }) => name.includes(word)))
      throw new Error(
        `--only ${word} matches no scenario; there are ${scenarios.map(({ name }) => name).join(', ')}`,
      )
  }
  const wanted = scenarios.filter(({ name }) => words.some((word) => name.includes(word)))
  const names = new Set(wanted.flatMap(({ name, repeats }) => [name, repeats ?? name]))
  return scenarios.filter(({ name }) => names.has(name))
}
