/** Tree in, configuration or every problem out: pure, and taken whole or refused whole. */
import type { ParsedConfig } from './config.ts'
import { crossChecks } from './cross-checks.ts'
import { withDefaults } from './defaults.ts'
import { PROBLEMS_AT_MOST } from './problems.ts'
import { readSchema } from './schema.ts'
import type { ConfigFile } from './schema.ts'
import type { Group } from './tree.ts'

/** Requests of one client at once: a quarter of the connections to one backend, so that no client holds them all, and enough for a browser or a pool. */
const concurrentOf = (connections: number): number => Math.max(8, Math.floor(connections / 4))

const toConfig = (file: ConfigFile): ParsedConfig => {
  const standard = concurrentOf(file.upstream.connections)
  const plans = Object.entries(file.plans).map(
    ([name, { perMinute, perDay, concurrent, shadow }]) => {
      const isCustom = perMinute === undefined || perDay === undefined
      return {
        name,
        limits: isCustom ? undefined : { perMinute, perDay },
        concurrent: concurrent ?? standard,
        shadow,
      }
    },
  )
  const plansByName = new Map(plans.map((plan) => [plan.name, plan]))
  const clients = file.clients.map((client) => {
    const plan = plansByName.get(client.plan)
    const limits = client.limits ?? plan?.limits
    if (plan === undefined || limits === undefined)
      throw new Error('a client without limits passed the checks')
    return { ...client, limits, concurrent: plan.concurrent }
  })
  return { ...file, plans: plansByName, clients }
}

/** Returns the configuration that a tree describes; or all its problems, and the tree with the defaults that they refer to. */
export const parseConfig = (tree: Group) => {
  const complete = withDefaults(tree)
  const { file, problems: faults } = readSchema(complete)
  const isHopeless = faults.length >= PROBLEMS_AT_MOST
  const problems = isHopeless ? faults : [...faults, ...crossChecks(complete)]
  const isSound = file !== undefined && problems.length === 0
  return { complete, config: isSound ? toConfig(file) : undefined, problems }
}
