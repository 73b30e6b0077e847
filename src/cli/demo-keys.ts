/** The API keys of the demonstration: they are public, so they are refused where others than this machine could use them. */
import { createHash } from 'node:crypto'
import { isLoopback } from '../config/hosts.ts'
import type { Config } from '../config/config.ts'

export interface DemoKey {
  readonly plan: string
  readonly clientId: string
  readonly keyId: string
  /** Sent as `Authorization: Bearer KEY`. */
  readonly key: string
}

const demoKey = (name: string, plan: string): DemoKey => ({
  plan,
  clientId: `demo-${name}`,
  keyId: `demo-${name}-1`,
  key: `tg_demo_${name}_public_for_loopback_only`,
})

/** One per plan; config/gateway.yaml lists the same clients by digest. */
export const planDemoKeys: readonly DemoKey[] = ['free', 'pro', 'business', 'enterprise'].map(
  (plan) => demoKey(plan, plan),
)

/** The limits of this key are out of reach, so that a load test meets neither 429 nor a ban. */
export const loadTestKey = demoKey('load', 'enterprise')

export const demoKeys: readonly DemoKey[] = [...planDemoKeys, loadTestKey]

/** SHA-256 in lower-case hex. */
export const demoKeyDigests: ReadonlySet<string> = new Set(
  demoKeys.map(({ key }) => createHash('sha256').update(key).digest('hex')),
)

/** Returns `fault; remedy` when others than this machine could use a demo key; undefined when all is well. */
export const refuseDemoKeys = (config: Config): string | undefined => {
  if (isLoopback(config.server.listen.host)) return undefined
  const ids = [...demoKeyDigests].flatMap((sha256) => {
    const owned = config.clients.keyByDigest(sha256)
    return owned === undefined ? [] : [owned.key.id]
  })
  if (ids.length === 0) return undefined
  return `opens public demo keys (${ids.join(', ')}) to the network; remove them from clients, or listen on 127.0.0.1`
}
