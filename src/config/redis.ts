/** The shapes of store.redis: a URL, or a group for one server, sentinels or a cluster; with the checks between its values. */
import { z } from 'zod'
import { type HostPort, parseHostPort } from './addresses.ts'
import { group, list } from './groups.ts'
import type { Path, Refuse } from './problems.ts'
import { faultOr, integer, line, notSingle, text } from './scalars.ts'
import { has, isGroup, listAt, textAt, valueAt, type Group, type Tree } from './tree.ts'
import { tlsFiles } from './upstream.ts'

const DEFAULT_PORT = 6379

/** Decodes percent-encoding; undefined for a stray percent sign. */
const decoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/**
 * redis://[USER:PASSWORD@]HOST[:PORT][/DB], or rediss:// for TLS; undefined for anything else.
 * A query is refused: in other programs it overrides options of the client library. The host has no brackets, user and password
 * are percent-decoded; without a user it is the default one.
 */
export function parseRedisUrl(text: string) {
  // Visible ASCII only: the URL parser would silently drop tabs and line breaks.
  if (!/^rediss?:\/\/[!-[\]-~]+$/.test(text) || !URL.canParse(text)) return undefined
  const url = new URL(text)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const [, db = '0'] = /^\/?(\d{1,5})?$/.exec(url.pathname) ?? [undefined, 'none']
  const username = decoded(url.username)
  const password = decoded(url.password)
  const isAddress = /^[A-Za-z0-9._:-]+$/.test(host) && url.port !== '0' && /^\d+$/.test(db)
  const isLogin = username !== undefined && password !== undefined && !(username && !password)
  if (!isAddress || !isLogin || /[?#]/.test(text)) return undefined
  return {
    host,
    port: url.port === '' ? DEFAULT_PORT : Number(url.port),
    db: Number(db),
    username: username || undefined,
    password: password || undefined,
    tls: url.protocol === 'rediss:',
  }
}

/** The fault of a text that parseRedisUrl refuses. */
const redisUrlFault = (text: string): string =>
  /^rediss?:\/\/.*[/?#%\s].*@/.test(text)
    ? 'has a user or password that cannot be told from the rest; write @ as %40, # as %23, / as %2F, ? as %3F and % as %25, or give { url, username, password }'
    : 'is not a Redis URL; write redis://HOST:PORT or rediss://HOST:PORT (with /DB if wanted)'

const formFault =
  'is neither a Redis URL nor a group; write redis://HOST:PORT, { url: .. }, { sentinels: [..], name: .. } or { cluster: [..] }'
const nodeFault =
  'is not HOST:PORT; write one such as 10.0.0.5:6379, or rediss://10.0.0.5:6379 for TLS'
const loginFaults = {
  sentinels:
    'has a user, password or database; write those as username, password and db beside the list',
  cluster:
    'has a user, password or database; write username and password beside the list, a cluster has no databases',
} as const

/** One credential: its ends and inside may hold blanks, but no control characters. */
const secret = text
  .regex(
    /^[^\p{Cc}]{1,1024}$/u,
    'is empty, too long or not one line; write it, or leave the key out',
  )
  .meta({ type: ['string', 'number'] })

const access = {
  username: secret.optional().describe('User of the gateway. Left out: the default user.'),
  password: secret.optional().describe('Password, as it is. Better from the environment: ${..}.'),
  tls: tlsFiles.optional().describe('TLS to all servers, sentinels too. {} is enough.'),
}

type Node = HostPort & { readonly tls?: boolean }

/** HOST:PORT, or a URL that says whether TLS is asked for. */
const node = (form: keyof typeof loginFaults) =>
  text.transform((written, context): Node => {
    const plain = parseHostPort(written)
    if (plain !== undefined) return plain
    const url = parseRedisUrl(written)
    // The usual port of a sentinel is not that of a server, so neither is assumed.
    const isWhole = url !== undefined && /:\d+(?:\/\d*)?$/.test(written)
    if (isWhole && url.password === undefined && url.db === 0) return url
    context.addIssue(isWhole ? loginFaults[form] : nodeFault)
    return z.NEVER
  })

const nodes = (form: keyof typeof loginFaults) => {
  const fault = 'is not a list of addresses; write [HOST:PORT, HOST:PORT]'
  return list(node(form), fault).min(1, { error: fault })
}

const url = text.transform((written, context) => {
  const value = parseRedisUrl(written)
  if (value === undefined) context.addIssue(redisUrlFault(written))
  return value ?? z.NEVER
})

/** TLS applies where a group or an address asks for it; the first that says either way counts. */
const noTlsFiles = tlsFiles.parse({})
const toTls = (files: z.output<typeof access.tls>, at: readonly Pick<Node, 'tls'>[]) =>
  files ?? (at.find(({ tls }) => tls !== undefined)?.tls === true ? noTlsFiles : undefined)

const addressesOf = (list: readonly HostPort[]) => list.map(({ host, port }) => ({ host, port }))

const server = group({
  url: url.describe('redis://HOST:PORT/DB, or rediss:// for TLS.'),
  ...access,
})

const sentinels = group({
  sentinels: nodes('sentinels').describe('HOST:PORT of each sentinel.'),
  name: z
    .string(faultOr(notSingle, 'is missing; write the name that the sentinels give the master'))
    .pipe(line)
    .describe('What the sentinels call the master.'),
  db: integer({ min: 0, max: 99_999 }).optional().describe('Database, from 0. Default: 0.'),
  ...access,
  sentinelUsername: secret.optional().describe('User at the sentinels.'),
  sentinelPassword: secret.optional().describe('Password at the sentinels.'),
}).transform(({ sentinels: list, db = 0, tls, ...given }) => ({
  kind: 'sentinels' as const,
  addresses: addressesOf(list),
  db,
  tls: toTls(tls, list),
  ...given,
}))

const cluster = group({
  cluster: nodes('cluster').describe('HOST:PORT of some nodes, which name the others.'),
  ...access,
}).transform(({ cluster: list, tls, ...given }) => ({
  kind: 'cluster' as const,
  addresses: addressesOf(list),
  tls: toTls(tls, list),
  ...given,
}))

/** The key that identifies each kind of group. */
const redisKinds = ['cluster', 'sentinels', 'url'] as const

const toServer = ({ url: at, tls, ...beside }: z.output<typeof server>) => ({
  kind: 'server' as const,
  addresses: addressesOf([at]),
  db: at.db,
  username: at.password === undefined ? beside.username : at.username,
  password: at.password ?? beside.password,
  tls: toTls(tls, [at]),
})

/** The URL alone; an empty one means the embedded store. */
const plainUrl = text
  .transform((written, context) => {
    const at = parseRedisUrl(written)
    if (at !== undefined) return toServer({ url: at })
    if (written !== '') context.addIssue(`${redisUrlFault(written)}, or "" for the embedded store`)
    return undefined
  })
  .meta({ type: ['string', 'null'] })

const forms = { cluster, sentinels, url: server.transform(toServer) }

/** Reports what is wrong with the form that the tree has, and nothing of the others. checkRedis reports two kinds at once; here the first of them counts. */
const oneForm = (tree: unknown, context: z.RefinementCtx): unknown => {
  const [kind, ...others] = redisKinds.filter((key) => has(tree as Tree, key))
  const form = typeof tree === 'string' ? plainUrl : kind && forms[kind]
  const one = kind === undefined ? tree : { ...(tree as Group) }
  for (const other of others) Reflect.deleteProperty(one as Group, other)
  const { error } = form?.safeParse(one, { jitless: true }) ?? {}
  context.issues.push(...((error?.issues ?? []) as z.core.$ZodRawIssue[]))
  return one
}

export const redis = z
  .preprocess(oneForm, z.union([plainUrl, ...Object.values(forms)], { error: formFault }))
  .prefault('')

/** Pairs whose first key is of no use without the second. */
const pairs: readonly (readonly [Path, string, string])[] = [
  [['username'], 'password', ''],
  [['sentinelUsername'], 'sentinelPassword', ''],
  [['tls', 'cert'], 'key', '; a certificate is of no use without'],
  [['tls', 'key'], 'cert', '; a key is of no use without'],
]

/** Whether an address asks for TLS; undefined where it does not say. */
const asksForTls = (written: string | undefined): boolean | undefined => {
  const scheme = /^(rediss?):\/\//.exec(written ?? '')?.[1]
  return scheme === undefined ? undefined : scheme === 'rediss'
}

const checkTls = (redis: Group, refuse: Refuse): void => {
  const kind = redisKinds.find((key) => has(redis, key)) ?? 'url'
  const paths: Path[] =
    kind === 'url' ? [[kind]] : listAt(redis, kind).map((_, index) => [kind, index])
  const asked = paths.map((path) => ({ path, tls: asksForTls(textAt(redis, ...path)) }))
  const first = asked.find(({ tls }) => tls !== undefined)?.tls
  for (const { path, tls } of asked)
    if (tls !== undefined && tls !== first)
      refuse(path, 'has another scheme than those before; write rediss:// in all or in none')
  if (first === false && isGroup(redis['tls']))
    refuse(['tls'], 'does not go with redis://; write rediss:// in the address', 'key')
}

export const checkRedis = (tree: Group, refuse: Refuse): void => {
  const root = ['store', 'redis']
  const redis = valueAt(tree, ...root)
  if (!isGroup(redis)) return
  const refuseIn: Refuse = (path, ...fault) => refuse([...root, ...path], ...fault)
  for (const [path, other, why] of pairs)
    if (has(redis, ...path) && !has(redis, ...path.slice(0, -1), other))
      refuseIn(path, `needs ${other} beside it${why}`, 'key')
  checkTls(redis, refuseIn)
  const kinds = redisKinds.filter((key) => has(redis, key))
  if (kinds.length > 1)
    refuse(root, `has ${kinds.join(' and ')}, which are different kinds of Redis; keep one of them`)
  const hasLogin = parseRedisUrl(textAt(redis, 'url') ?? '')?.password !== undefined
  if (hasLogin && (has(redis, 'username') || has(redis, 'password')))
    refuseIn(
      ['url'],
      'has a user or password, and username or password is written beside it too; keep one of the two',
    )
}
