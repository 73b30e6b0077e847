/** Checks between the values of store.redis. They read the tree, as cross-checks.ts does. */
import { problem } from './problems.ts'
import type { Path, PathProblem } from './problems.ts'
import { redisKinds } from './redis.ts'
import { parseRedisUrl } from './redis-url.ts'
import { isGroup, listAt, textAt, valueAt } from './tree.ts'
import type { Group } from './tree.ts'

const root = ['store', 'redis']

/** Pairs whose first key is of no use without the second. */
const pairs: readonly (readonly [Path, string, string])[] = [
  [['username'], 'password', ''],
  [['sentinelUsername'], 'sentinelPassword', ''],
  [['tls', 'cert'], 'key', '; a certificate is of no use without'],
  [['tls', 'key'], 'cert', '; a key is of no use without'],
]

const checkPairs = (redis: Group): PathProblem[] =>
  pairs.flatMap(([path, other, why]) =>
    valueAt(redis, ...path) === undefined ||
    valueAt(redis, ...path.slice(0, -1), other) !== undefined
      ? []
      : [problem([...root, ...path], `needs ${other} beside it${why}`, 'key')],
  )

/** Whether an address asks for TLS; undefined where it does not say. */
const asksForTls = (written: string | undefined): boolean | undefined => {
  const scheme = /^(rediss?):\/\//.exec(written ?? '')?.[1]
  return scheme === undefined ? undefined : scheme === 'rediss'
}

const otherScheme = 'has another scheme than those before; write rediss:// in all or in none'

const checkTls = (redis: Group): PathProblem[] => {
  const kind = redisKinds.find((key) => redis[key] !== undefined) ?? 'url'
  const paths: Path[] =
    kind === 'url' ? [[kind]] : listAt(redis, kind).map((_, index) => [kind, index])
  const asked = paths.map((path) => ({ path, tls: asksForTls(textAt(redis, ...path)) }))
  const first = asked.find(({ tls }) => tls !== undefined)?.tls
  const problems = asked
    .filter(({ tls }) => tls !== undefined && tls !== first)
    .map(({ path }) => problem([...root, ...path], otherScheme))
  if (first === false && isGroup(redis['tls'])) {
    const message = 'does not go with redis://; write rediss:// in the address'
    problems.push(problem([...root, 'tls'], message, 'key'))
  }
  return problems
}

export const checkRedis = (tree: Group): PathProblem[] => {
  const redis = valueAt(tree, ...root)
  if (!isGroup(redis)) return []
  const problems = [...checkPairs(redis), ...checkTls(redis)]
  const kinds = redisKinds.filter((key) => redis[key] !== undefined)
  if (kinds.length > 1) {
    const message = `has ${kinds.join(' and ')}, which are different kinds of Redis; keep one of them`
    problems.push(problem(root, message))
  }
  const hasLogin = parseRedisUrl(textAt(redis, 'url') ?? '')?.password !== undefined
  if (hasLogin && (redis['username'] ?? redis['password']) !== undefined) {
    const message =
      'has a user or password, and username or password is written beside it too; keep one of the two'
    problems.push(problem([...root, 'url'], message))
  }
  return problems
}
