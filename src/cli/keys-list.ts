/** `tollgate keys list`: the keys of a configuration or of a running gateway, and when they end; never a digest. */
import type { Environment } from '../config/environment.ts'
import { ConfigError } from '../config/problems.ts'
import { clientId, duration, faultIn } from '../config/scalars.ts'
import { EXPIRING_MS } from '../config/clients/warnings.ts'
import { clientsOf } from './operator/admin-keys.ts'
import type { Output } from './operator/asking.ts'
import { lookOf } from './terminal/look.ts'
import { id, table, text, type Column } from './terminal/table.ts'
import { clock, relative } from '../insight/format.js'
import { OK, REFUSED } from './edge.ts'
import { loadUsableConfig } from './load-usable-config.ts'

interface KeysListOptions {
  /** Exactly one of config and admin is given. */
  readonly config?: string
  readonly admin?: string
  /** Lists only keys that end within this time, and have not yet. */
  readonly expiring?: string
  readonly client?: string
  readonly json?: boolean
}

interface ListedKey {
  readonly keyId: string
  readonly client: string
  readonly plan: string
  /** null: never. */
  readonly expires: string | null
  readonly state: 'valid' | 'expiring' | 'expired'
}

/** The part of a client that is needed. */
interface Holder {
  readonly id: string
  readonly plan: string
  readonly keys: Iterable<{ readonly id: string; readonly expiresAtMs?: number | undefined }>
}

const withinDuration = duration({ min: 0, max: 4000 * 24 * 60 * 60 * 1000 })

export async function keysListCommand(
  output: Output,
  { config: file, admin, expiring, client, json = false }: KeysListOptions,
): Promise<number> {
  const { env, print, complain } = output
  const faults = [
    expiring !== undefined && prefixed('--expiring', faultIn(withinDuration, expiring)),
    client !== undefined && prefixed('--client', faultIn(clientId, client)),
    (file === undefined) === (admin === undefined) && '--config and --admin: give one of them',
  ].filter((fault) => typeof fault === 'string')
  for (const fault of faults) complain(`tollgate: ${fault}`)
  if (faults.length > 0) return REFUSED
  const withinMs = expiring === undefined ? undefined : withinDuration.parse(expiring)
  try {
    const holders =
      admin === undefined
        ? await configured(file ?? '', env, client)
        : running({ admin, env }, client ? { client } : expiring ? { expiring } : {})
    let count = 0
    const keys = listed(holders, { withinMs, onHolder: () => count++ })
    const lines = json ? jsonOf(keys) : table(columnsAt(Date.now()), keys, lookOf(output))
    for await (const line of lines) print(line)
    if (client !== undefined && count === 0) complain(`# There is no client ${client}.`)
    return OK
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.format()) complain(problem)
    return REFUSED
  }
}

async function configured(file: string, env: Environment, client: string | undefined) {
  const { clients } = await loadUsableConfig(file, env)
  return client === undefined ? clients : [clients.get(client)].filter((one) => one !== undefined)
}

async function* running(...query: Parameters<typeof clientsOf>): AsyncGenerator<Holder> {
  for await (const { id, plan, keys } of clientsOf(...query))
    yield {
      id,
      plan,
      keys: keys.map(({ id: key, expires }) => ({
        id: key,
        expiresAtMs: expires === null ? undefined : Date.parse(expires),
      })),
    }
}

const prefixed = (name: string, fault: string | undefined) => fault && `${name} ${fault}`

async function* listed(
  holders: Iterable<Holder> | AsyncIterable<Holder>,
  { withinMs, onHolder }: { withinMs: number | undefined; onHolder(): void },
): AsyncGenerator<ListedKey> {
  const nowMs = Date.now()
  for await (const { id: client, plan, keys } of holders) {
    onHolder()
    for (const { id: keyId, expiresAtMs = Infinity } of keys) {
      const isSoon = expiresAtMs < nowMs + (withinMs ?? EXPIRING_MS)
      const state = expiresAtMs <= nowMs ? 'expired' : isSoon ? 'expiring' : 'valid'
      const expires = expiresAtMs === Infinity ? null : new Date(expiresAtMs).toISOString()
      if (withinMs === undefined || state === 'expiring')
        yield { keyId, client, plan, expires, state }
    }
  }
}

const columnsAt = (nowMs: number): Column<ListedKey>[] => [
  id('KEY', ({ keyId }) => keyId),
  id('CLIENT', ({ client }) => client),
  text('PLAN', ({ plan }) => plan, { drop: 1 }),
  text('EXPIRES', ({ expires }) => expires ?? 'never', {
    write: (at) =>
      at === 'never' ? at : `${clock(Date.parse(at), nowMs)}, ${relative(Date.parse(at), nowMs)}`,
  }),
  text('STATE', ({ state }) => state, {
    colour: ({ state }) =>
      (({ valid: undefined, expiring: 'yellow', expired: 'red' }) as const)[state],
  }),
]

/** Writes an array with a key a line: there may be a million. */
async function* jsonOf(keys: AsyncIterable<ListedKey>): AsyncGenerator<string> {
  let before = '['
  for await (const key of keys) {
    yield before + JSON.stringify(key)
    before = ','
  }
  yield before === '[' ? '[]' : ']'
}
