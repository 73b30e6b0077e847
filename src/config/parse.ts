/** Tree in, configuration or every problem out: pure, and taken whole or refused whole. */
import type { z } from 'zod'
import type { ParsedConfig } from './config.ts'
import { completed } from './groups.ts'
import { suggest } from './nearest.ts'
import { checkClient, client } from './plans.ts'
import { problem, problemsOf, PROBLEMS_AT_MOST, type Path, type PathProblem } from './problems.ts'
import { configSchema, crossChecks, type ConfigFile } from './schema.ts'
import { byLimit, limitKeys } from './time.ts'
import { isGroup, listAt, type Group, type Tree } from './tree.ts'

const unknownKeys = (path: Path, keys: readonly string[], known: string): PathProblem[] =>
  keys.slice(0, PROBLEMS_AT_MOST).map((key) => {
    const remedy = `${suggest(key, known.split(', '))}the keys here are ${known}`
    return problem([...path, key], `is not a known key; ${remedy}`, 'key')
  })

/** One path and sentence for each fault of an issue. */
const toProblems = (issue: z.core.$ZodIssue): PathProblem[] => {
  const path = issue.path.map((step) => (typeof step === 'number' ? step : String(step)))
  if (issue.code === 'unrecognized_keys') return unknownKeys(path, issue.keys, issue.message)
  if (issue.code === 'invalid_key') {
    return issue.issues.map(({ message }) => problem(path, message, 'key'))
  }
  return [problem(path, issue.message)]
}

/** Judges a client, of the configuration itself or of a client file: the client unless its shape is wrong, and problems whose paths begin at it. plans: the group `plans` of the configuration. */
export const readEntry = (entry: Tree, plans: Group) => {
  const { data, error } = client.safeParse(entry)
  const shape = error?.issues.flatMap(toProblems) ?? []
  const between = isGroup(entry) ? problemsOf((refuse) => checkClient(entry, plans, refuse)) : []
  return { client: data, problems: [...shape, ...between] }
}

/** Requests of one client at once: a quarter of the connections to one backend, so that no client holds them all, and enough for a browser or a pool. */
const concurrentOf = (connections: number): number => Math.max(8, Math.floor(connections / 4))

const toConfig = (file: Omit<ConfigFile, 'clients'>): ParsedConfig => {
  const standard = concurrentOf(file.upstream.connections)
  const plans = Object.entries(file.plans).map(([name, plan]) => {
    const isCustom = limitKeys.some((key) => plan[key] === undefined)
    const limits = isCustom ? undefined : byLimit(({ limit }) => plan[limit] ?? 0)
    return { name, limits, concurrent: plan.concurrent ?? standard, shadow: plan.shadow }
  })
  return { ...file, plans: new Map(plans.map((plan) => [plan.name, plan])) }
}

/** Returns the configuration that a tree describes without its clients, which are read one by one; or all its problems, and the tree with the defaults that they refer to. */
export const parseConfig = (tree: Group) => {
  const filled = completed(tree, configSchema)
  const complete = isGroup(filled) ? filled : tree
  const isList = listAt(complete, 'clients').length > 0
  const whole = isList ? { ...complete, clients: [] } : complete
  // A tree is parsed once: code that zod makes for each group would cost more than it saves.
  const { data, error } = configSchema.safeParse(whole, { jitless: true })
  const faults = error?.issues.flatMap(toProblems) ?? []
  const problems = [...faults, ...crossChecks(complete)]
  const isSound = data !== undefined && problems.length === 0
  return { complete, config: isSound ? toConfig(data) : undefined, problems }
}
