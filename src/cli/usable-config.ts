/** Loads a configuration that a gateway may start with: the keys of the demonstration are public, so they are refused where others than this machine could use them. */
import { hash } from 'node:crypto'
import { loadConfigAside } from '../config/clients/aside.ts'
import { loadConfig } from '../config/clients/load.ts'
import type { Config } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import { isLoopback } from '../config/hosts.ts'
import { ConfigError, ofWholeFile } from '../config/problems.ts'

/**
 * Rejects with ConfigError with every problem, public demo keys on an open listener among them. isServing: the file is loaded in
 * a thread, as requests must not wait; else in this thread, which is sooner.
 */
export async function loadUsableConfig(
  file: string,
  env: Environment,
  { isServing = false } = {},
): Promise<Config> {
  const config = await (isServing ? loadConfigAside : loadConfig)(file, env)
  const complaint = refuseDemoKeys(config)
  if (complaint === undefined) return config
  throw new ConfigError(file, [{ ...ofWholeFile(complaint), path: ['server', 'listen'] }])
}

const demoKey = (name: string): string => `tg_demo_${name}_public_for_loopback_only`

/** One per plan; config/gateway.yaml lists their clients by digest. */
export const planDemoKeys = ['free', 'pro', 'business', 'enterprise'].map((plan) => ({
  plan,
  key: demoKey(plan),
}))

/** The limits of this key are out of reach, so that a load test meets neither 429 nor a ban. */
export const loadTestKey = demoKey('load')

export const demoKeys: readonly string[] = [...planDemoKeys.map(({ key }) => key), loadTestKey]

/** Returns `fault; remedy` when others than this machine could use a demo key; undefined when all is well. */
export const refuseDemoKeys = (config: Config): string | undefined => {
  if (isLoopback(config.server.listen.host)) return undefined
  const ids = demoKeys.flatMap(
    (key) => config.clients.keyByDigest(hash('sha256', key))?.key.id ?? [],
  )
  if (ids.length === 0) return undefined
  return `opens public demo keys (${ids.join(', ')}) to the network; remove them from clients, or listen on 127.0.0.1`
}
