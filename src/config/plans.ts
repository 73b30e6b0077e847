/** The shapes of plans and of clients, under `clients` and in client files, with the checks between their values. */
import { z } from 'zod'
import { group, list } from './groups.ts'
import { suggest } from './nearest.ts'
import { formatPath, problem, type Path, type PathProblem } from './problems.ts'
import {
  clientId,
  dateMs,
  faultOr,
  flag,
  integer,
  keyDigest,
  keyId,
  label,
  type Leaf,
} from './scalars.ts'
import { byLimit, limitKeys, windows } from './time.ts'
import {
  below,
  groupAt,
  isGroup,
  itemsAt,
  readAt,
  repeated,
  textAt,
  unlessOrdered,
  valueAt,
  type Group,
} from './tree.ts'

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
const count: Leaf<number> = integer({ min: 0, max: 1e15 })

const checkWindows = (tree: Group, path: Path): PathProblem[] =>
  windows.slice(1).flatMap(({ name, limit }, index) => {
    const shorter = windows[index]
    if (shorter === undefined) return []
    const message = `is below ${shorter.limit}; a ${name} allows at least what its ${shorter.name} does`
    const inOrder = [
      [...path, shorter.limit],
      [...path, limit],
    ] as const
    return unlessOrdered(tree, count, inOrder, problem([...path, limit], message))
  })

const allLimits = limitKeys.join(' and ')

const checkPlan = (tree: Group, name: string): PathProblem[] => {
  const path = ['plans', name]
  const given = valueAt(tree, ...path)
  if (!isGroup(given)) return []
  const own = limitKeys.filter((key) => valueAt(given, key) !== undefined)
  const custom = textAt(given, 'custom')
  if (custom === 'false') {
    return [problem([...path, 'custom'], `is not needed; write true, or give ${allLimits}`)]
  }
  if (custom !== undefined) {
    return own.map((key) =>
      problem([...path, key], 'does not go with custom; remove one of the two', 'key'),
    )
  }
  if (valueAt(given, 'custom') !== undefined || own.length === limitKeys.length)
    return checkWindows(tree, path)
  return [problem(path, `has no full limits; give ${allLimits}, or custom: true`, 'key')]
}

export const checkPlans = (tree: Group): PathProblem[] =>
  Object.keys(groupAt(tree, 'plans')).flatMap((name) => [
    ...checkPlan(tree, name),
    ...checkWindows(tree, ['plans', name, 'shadow']),
  ])

/** Faults between the client at the path and the plans of the tree. */
export const checkClient = (tree: Group, path: Path): PathProblem[] => {
  const planName = readAt(tree, [...path, 'plan'], label)
  if (planName === undefined) return []
  const own = valueAt(tree, ...path, 'limits')
  const known = valueAt(tree, 'plans', planName)
  if (known === undefined) {
    const names = Object.keys(groupAt(tree, 'plans')).map((name) => formatPath([name]))
    const all = names.length > 0 ? `the plans are ${names.join(', ')}` : 'define it under plans'
    return [problem([...path, 'plan'], `is not a defined plan; ${suggest(planName, names)}${all}`)]
  }
  const custom = textAt(known, 'custom') === 'true'
  if (custom && own === undefined) {
    return [problem([...path, 'limits'], 'is missing; a client of a custom plan states its own')]
  }
  if (!custom && own !== undefined && isGroup(known)) {
    return [
      problem([...path, 'limits'], 'is for custom plans only; remove it or change the plan', 'key'),
    ]
  }
  return checkWindows(tree, [...path, 'limits'])
}

export const sameId = (earlier: string): string => `is the same id as ${earlier}; give each its own`
export const sameDigest = (earlier: string): string =>
  `is the same digest as ${earlier}; one key belongs to one client, once`

export const checkClients = (tree: Group): PathProblem[] => {
  const clients = itemsAt(tree, 'clients')
  const keys = clients.flatMap((path) => itemsAt(tree, ...path, 'keys'))
  const written = (path: Path) => textAt(tree, ...path)
  return [
    ...clients.flatMap((path) => checkClient(tree, path)),
    ...repeated(below(clients, 'id'), written, sameId),
    ...repeated(below(keys, 'id'), written, sameId),
    ...repeated(below(keys, 'sha256'), (path) => written(path)?.toLowerCase(), sameDigest),
  ]
}
