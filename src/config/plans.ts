/** The shapes of plans and of clients, under `clients` and in client files, with the checks between their values. */
import { z } from 'zod'
import { group, list } from './groups.ts'
import { suggest } from './nearest.ts'
import { formatPath, type Path, type Refuse } from './problems.ts'
import { clientId, dateMs, faultOr, flag, integer, keyDigest, keyId, label } from './scalars.ts'
import { byLimit, limitKeys, windows } from './time.ts'
import { groupAt, has, isAbove, isGroup, readAt, textAt, valueAt, type Group } from './tree.ts'

const limitOf = byLimit(({ most }) => integer({ min: 1, max: most }))
export const { perMinute } = limitOf
const limits = group(limitOf)

const plan = group({
  ...byLimit(({ limit }) => limitOf[limit].optional()),
  custom: flag.optional(),
  concurrent: integer({ min: 1, max: 1_000_000 }).optional(),
  /** Limits that are only tried, on each client of the plan, of a custom one too. */
  shadow: limits.optional(),
})

const cardinality = 'has no keys; define at least one plan'
/** Each plan is a label of metrics. */
const PLANS_AT_MOST = 1_000
const tooManyPlans = `has more than ${PLANS_AT_MOST} plans; clients with limits of their own share one with custom: true`

export const plans = z
  .record(
    label,
    plan,
    faultOr(`is not a group of plans; write NAME: { ${limitKeys.join(', ')} } lines`),
  )
  .refine((given) => Object.keys(given).length > 0, { error: cardinality })
  .refine((given) => Object.keys(given).length <= PLANS_AT_MOST, { error: tooManyPlans })
  .prefault({
    free: { perMinute: '60', perDay: '1000' },
    pro: { perMinute: '300', perDay: '10000' },
    business: { perMinute: '1000', perDay: '100000' },
    enterprise: { custom: 'true' },
  })

export const client = group({
  id: clientId,
  plan: label,
  limits: limits.optional(),
  keys: list(
    group({ id: keyId, sha256: keyDigest, expires: dateMs.optional() }).transform(
      ({ expires, ...key }) => ({ ...key, expiresAtMs: expires }),
    ),
  ).prefault([]),
})

/** A count without the bounds of its key. */
const count = integer({ min: 0, max: 1e15 })

const checkWindows = (tree: Group, path: Path, refuse: Refuse): void => {
  for (const [index, { name, limit }] of windows.slice(1).entries()) {
    const shorter = windows[index]
    if (shorter !== undefined && isAbove(tree, count, [...path, shorter.limit], [...path, limit]))
      refuse(
        [...path, limit],
        `is below ${shorter.limit}; a ${name} allows at least what its ${shorter.name} does`,
      )
  }
}

const allLimits = limitKeys.join(' and ')

const checkPlan = (tree: Group, path: Path, refuse: Refuse): void => {
  checkWindows(tree, [...path, 'shadow'], refuse)
  const given = valueAt(tree, ...path)
  if (!isGroup(given)) return
  const own = limitKeys.filter((key) => has(given, key))
  const custom = textAt(given, 'custom')
  if (custom === 'false')
    refuse([...path, 'custom'], `is not needed; write true, or give ${allLimits}`)
  else if (custom !== undefined)
    for (const key of own)
      refuse([...path, key], 'does not go with custom; remove one of the two', 'key')
  else if (has(given, 'custom') || own.length === limitKeys.length) checkWindows(tree, path, refuse)
  else refuse(path, `has no full limits; give ${allLimits}, or custom: true`, 'key')
}

export const checkPlans = (tree: Group, refuse: Refuse): void => {
  for (const name of Object.keys(groupAt(tree, 'plans'))) checkPlan(tree, ['plans', name], refuse)
}

/** Refuses faults between a client and the group `plans` of the configuration; their paths begin at the client. */
export const checkClient = (client: Group, plans: Group, refuse: Refuse): void => {
  const planName = readAt(client, ['plan'], label)
  if (planName === undefined) return
  const limits = ['limits']
  const hasOwn = has(client, ...limits)
  const known = valueAt(plans, planName)
  const isCustom = textAt(known, 'custom') === 'true'
  if (known === undefined) {
    const names = Object.keys(plans).map((name) => formatPath([name]))
    const all = names.length > 0 ? `the plans are ${names.join(', ')}` : 'define it under plans'
    refuse(['plan'], `is not a defined plan; ${suggest(planName, names)}${all}`)
  } else if (isCustom && !hasOwn)
    refuse(limits, 'is missing; a client of a custom plan states its own')
  else if (!isCustom && hasOwn && isGroup(known))
    refuse(limits, 'is for custom plans only; remove it or change the plan', 'key')
  else checkWindows(client, limits, refuse)
}

export const sameId = (earlier: string): string => `is the same id as ${earlier}; give each its own`
export const sameDigest = (earlier: string): string =>
  `is the same digest as ${earlier}; one key belongs to one client, once`
