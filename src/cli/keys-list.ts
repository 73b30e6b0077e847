/** `tollgate keys list`: the keys of a configuration or of a running gateway, and when they end; never a digest. */
import type { ClientConfig } from '../config/config.ts'
import type { Environment } from '../config/environment.ts'
import { clientId, duration } from '../config/scalars.ts'
import { EXPIRING_MS } from '../config/clients/warnings.ts'
import { clientsOf } from './operator/admin-keys.ts'
import { gatewayOf } from './operator/asking.ts'
import type { Output, Texts } from './edge.ts'
import { lookOf } from './terminal/look.ts'
import { table } from './terminal/table.ts'
import { id, text, type Column } from '../tools/columns.ts'
import { clock, relative } from '../insight/format.js'
import { Fault, readOption } from './terminal/fault.ts'
import { loadUsableConfig } from './usable-config.ts'

interface KeysListOptions extends Texts<'config' | 'admin' | 'expiring' | 'client'> {
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

const withinDuration = duration('0ms', '4000d')

export async function keysListCommand(
  output: Output,
  { config: file, admin, expiring, client, json = false }: KeysListOptions,
): Promise<void> {
  const { env, print, complain } = output
  const withinMs = readOption('expiring', withinDuration, expiring)
  readOption('client', clientId, client)
  if (file !== undefined && admin !== undefined)
    throw new Fault('usage', '--config and --admin: give one of them')
  const holders =
    file === undefined
      ? clientsOf(gatewayOf(output, { admin }), client ? { client } : expiring ? { expiring } : {})
      : await configured(file, env, client)
  let count = 0
  const keys = listed(holders, { withinMs, onHolder: () => count++ })
  const lines = json ? jsonOf(keys) : table(columnsAt(Date.now()), keys, lookOf(output))
  let printed = 0
  for await (const line of lines) {
    print(line)
    printed++
  }
  if (client !== undefined && count === 0) complain(`# There is no client ${client}.`)
  else if (printed === 0) complain(expiring ? `No key ends within ${expiring}.` : 'No keys.')
}

async function configured(file: string, env: Environment, client: string | undefined) {
  const { clients } = await loadUsableConfig(file, env)
  return client === undefined ? clients : [clients.get(client)].filter((one) => one !== undefined)
}

async function* listed(
  holders: Iterable<ClientConfig> | AsyncIterable<ClientConfig>,
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
