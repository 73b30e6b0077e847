/** Reads store.redis: a URL, or a group for one server, sentinels or a cluster. */
import { parseRedisUrl } from './redis-url.ts'
import { parseHostPort } from './addresses.ts'
import type { HostPort, RedisConfig, RedisTlsConfig } from './config.ts'
import type { Path, PathProblem } from './problems.ts'
import { integer, line, type Reader, type Reading } from './scalars.ts'
import { isGroup, isList, valueAt, type Group, type Tree } from './tree.ts'

/** The path of a problem is that below store.redis. */
export type RedisReading =
  { readonly value: RedisConfig | undefined } | { readonly problems: readonly PathProblem[] }

const keysOf = {
  url: ['url', 'username', 'password', 'tls'],
  sentinels: [
    'sentinels',
    'name',
    'db',
    'username',
    'password',
    'sentinelUsername',
    'sentinelPassword',
    'tls',
  ],
  cluster: ['cluster', 'username', 'password', 'tls'],
} as const
const tlsKeys = ['ca', 'cert', 'key', 'serverName']

type Form = keyof typeof keysOf
const forms: readonly Form[] = ['cluster', 'sentinels', 'url']

const urlFault =
  'is not a Redis URL; write redis://HOST:PORT or rediss://HOST:PORT (with /DB if wanted)'
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
const secret: Reader<string> = (text) =>
  /^[^\p{Cc}]{1,1024}$/u.test(text)
    ? { value: text }
    : { fault: 'is empty, too long or not one line; write it, or leave the key out' }

/** Takes values out of the group and keeps what is wrong with them. */
class Faults {
  readonly problems: PathProblem[] = []

  add(path: Path, message: string, at: 'key' | 'value' = 'value'): undefined {
    this.problems.push({ path, at, message })
    return undefined
  }

  /** The value at the path, undefined where there is none. */
  read<T>(tree: Tree, path: Path, reader: Reader<T>): T | undefined {
    const text = valueAt(tree, ...path)
    if (text === undefined) return undefined
    if (typeof text !== 'string')
      return this.add(path, 'is a list or a group of keys; write a single value')
    const reading = reader(text)
    return 'value' in reading ? reading.value : this.add(path, reading.fault)
  }

  known(group: Group, path: Path, keys: readonly string[]): void {
    for (const key of Object.keys(group)) {
      if (keys.includes(key)) continue
      this.add([...path, key], `is not a known key; the keys here are ${keys.join(', ')}`, 'key')
    }
  }

  /** cert and key go together: one proves the other. */
  pair(tree: Tree, [one, other]: readonly [Path, Path], why: string): void {
    if (valueAt(tree, ...one) !== undefined && valueAt(tree, ...other) === undefined)
      this.add(one, `needs ${String(other.at(-1))} beside it${why}`, 'key')
  }
}

/** `asked`: whether a URL asks for TLS; undefined: none says. */
function readTls(
  group: Group,
  asked: boolean | undefined,
  faults: Faults,
): RedisTlsConfig | undefined {
  const tls = group['tls']
  const none = { caFile: undefined, certFile: undefined, keyFile: undefined, serverName: undefined }
  if (tls === undefined) return asked === true ? none : undefined
  if (!isGroup(tls))
    return faults.add(
      ['tls'],
      `is not a group of keys; write KEY: VALUE lines, the keys are ${tlsKeys.join(', ')}`,
    )
  faults.known(tls, ['tls'], tlsKeys)
  faults.pair(
    group,
    [
      ['tls', 'cert'],
      ['tls', 'key'],
    ],
    '; a certificate is of no use without',
  )
  faults.pair(
    group,
    [
      ['tls', 'key'],
      ['tls', 'cert'],
    ],
    '; a key is of no use without',
  )
  if (asked === false)
    faults.add(['tls'], 'does not go with redis://; write rediss:// in the address', 'key')
  return {
    caFile: faults.read(group, ['tls', 'ca'], line),
    certFile: faults.read(group, ['tls', 'cert'], line),
    keyFile: faults.read(group, ['tls', 'key'], line),
    serverName: faults.read(group, ['tls', 'serverName'], line),
  }
}

function readLogin(group: Group, faults: Faults) {
  faults.pair(group, [['username'], ['password']], '')
  return {
    username: faults.read(group, ['username'], secret),
    password: faults.read(group, ['password'], secret),
  }
}

/** Addresses of nodes, HOST:PORT or URLs, and whether they ask for TLS. */
function readNodes(group: Group, key: 'sentinels' | 'cluster', faults: Faults) {
  const list = group[key]
  if (!isList(list) || list.length === 0) {
    faults.add([key], 'is not a list of addresses; write [HOST:PORT, HOST:PORT]')
    return { nodes: [], asked: undefined }
  }
  let asked: boolean | undefined
  const nodes = list.flatMap((_, index): HostPort[] => {
    const path = [key, index]
    const node = faults.read(group, path, (text): Reading<HostPort & { tls?: boolean }> => {
      const plain = parseHostPort(text)
      if (plain !== undefined) return { value: plain }
      const url = parseRedisUrl(text)
      // The usual port of a sentinel is not that of a server, so neither is assumed.
      if (url === undefined || !/:\d+(?:\/\d*)?$/.test(text)) return { fault: nodeFault }
      const { host, port, tls } = url
      const isBare = url.password === undefined && url.db === 0
      return isBare ? { value: { host, port, tls } } : { fault: loginFaults[key] }
    })
    if (node === undefined) return []
    if (node.tls !== undefined && asked !== undefined && node.tls !== asked)
      faults.add(path, 'has another scheme than those before; write rediss:// in all or in none')
    asked ??= node.tls
    return [{ host: node.host, port: node.port }]
  })
  return { nodes, asked }
}

function readServer(group: Group, faults: Faults): RedisConfig | undefined {
  const url = faults.read(group, ['url'], (text) => {
    const value = parseRedisUrl(text)
    return value === undefined ? { fault: urlFault } : { value }
  })
  const login = readLogin(group, faults)
  const tls = readTls(group, url?.tls, faults)
  if (url === undefined) return undefined
  const { host, port, db } = url
  if (url.password !== undefined && (login.password ?? login.username) !== undefined)
    faults.add(
      ['url'],
      'has a user or password, and username or password is written beside it too; keep one of the two',
    )
  const { username, password } = url.password === undefined ? login : url
  return { kind: 'server', address: { host, port }, db, username, password, tls }
}

function readSentinels(group: Group, faults: Faults): RedisConfig {
  const { nodes, asked } = readNodes(group, 'sentinels', faults)
  const name = faults.read(group, ['name'], line)
  if (group['name'] === undefined)
    faults.add(['name'], 'is missing; write the name that the sentinels give the master', 'key')
  faults.pair(group, [['sentinelUsername'], ['sentinelPassword']], '')
  return {
    kind: 'sentinels',
    sentinels: nodes,
    name: name ?? '',
    db: faults.read(group, ['db'], integer({ min: 0, max: 99_999 })) ?? 0,
    ...readLogin(group, faults),
    sentinelUsername: faults.read(group, ['sentinelUsername'], secret),
    sentinelPassword: faults.read(group, ['sentinelPassword'], secret),
    tls: readTls(group, asked, faults),
  }
}

function readCluster(group: Group, faults: Faults): RedisConfig {
  const { nodes, asked } = readNodes(group, 'cluster', faults)
  const login = readLogin(group, faults)
  return { kind: 'cluster', nodes, ...login, tls: readTls(group, asked, faults) }
}

const readers = { url: readServer, sentinels: readSentinels, cluster: readCluster }

export function readRedis(tree: Tree): RedisReading {
  if (tree === '') return { value: undefined }
  const faults = new Faults()
  if (typeof tree === 'string') {
    const isWhole = readServer({ url: tree }, faults)
    return isWhole === undefined || faults.problems.length > 0
      ? {
          problems: [
            { path: [], at: 'value', message: `${urlFault}, or "" for the embedded store` },
          ],
        }
      : { value: isWhole }
  }
  const given = isGroup(tree) ? forms.filter((key) => tree[key] !== undefined) : []
  const [form] = given
  if (form === undefined || !isGroup(tree))
    return { problems: [{ path: [], at: 'value', message: formFault }] }
  if (given.length > 1)
    faults.add(
      [],
      `has ${given.join(' and ')}, which are different kinds of Redis; keep one of them`,
    )
  faults.known(tree, [], [...keysOf[form], ...given.slice(1)])
  const value = readers[form](tree, faults)
  return faults.problems.length > 0 ? { problems: faults.problems } : { value }
}
