/** `tollgate keys new`, `rotate` and `revoke`: makes keys, shows them once, and keeps their digests in files. */
import { dirname, extname } from 'node:path'
import { build } from '../config/clients/builder.ts'
import {
  clientFileEndings,
  isJsonLines,
  readClients,
  type ClientSource,
} from '../config/clients/entries.ts'
import { parseConfigText } from '../config/clients/load.ts'
import { readYaml, yamlLines } from '../config/document.ts'
import type { Environment } from '../config/environment.ts'
import { readText } from '../config/files.ts'
import { byLimit, limitKeys, windowNames, type LimitKey } from '../config/time.ts'
import { ConfigError } from '../config/problems.ts'
import { clientId, dateMs, duration, integer, keyId, label } from '../config/scalars.ts'
import { ClientText, newKey, type KeyEntry } from './key-files/client-text.ts'
import { has, isGroup, textAt, type Group, type Tree } from '../config/tree.ts'
import type { Output, Texts } from './edge.ts'
import { Fault, readOption } from './terminal/fault.ts'
import { isAbsent, rewriteFile } from './key-files/rewrite-file.ts'

interface KeysNewOptions extends Texts<'plan' | LimitKey | 'expires' | 'write'> {
  readonly client: string
  readonly json?: boolean
}

const LIMIT_OPTIONS = windowNames.map((name) => `--per-${name}`).join(' and ')
const limit = integer({ min: 1, max: 1_000_000_000_000 })
const dateToCome = dateMs.refine((ms) => ms > Date.now(), {
  error: 'is in the past; write a date still to come',
})
const grace = duration('0ms', '400d')

/** Key ids begin with the id of their client. */
export function checkClient(client: string): void {
  readOption('client', clientId, client)
  readOption('client', keyId, client)
}

const refused = (fault: string): Fault => new Fault('usage', fault)

export async function keysNewCommand(output: Output, options: KeysNewOptions): Promise<void> {
  const { client, plan, expires, write } = options
  checkClient(client)
  readOption('plan', label, plan)
  const given = byLimit(({ name, limit: key }) => readOption(`per-${name}`, limit, options[key]))
  const missing = limitKeys.filter((key) => given[key] === undefined)
  readOption('expires', dateToCome, expires)
  const limits = missing.length === 0 ? given : undefined
  if (limits === undefined && missing.length < limitKeys.length)
    throw refused(`${LIMIT_OPTIONS} go together; give both, or none`)
  const made = newKey(client, expires)
  const { entry } = made
  if (write !== undefined)
    await changeClients({ file: write, mayMake: true, env: output.env }, (clients) =>
      clients.withKey({ id: client, plan, limits }, entry),
    )
  printKey(output, options, made)
  if (write !== undefined) return
  const say = options.json === true ? output.complain : output.print
  say('# Add this to the configuration; if the client is already there, add only its key.')
  if (limits === undefined) say(`# A plan without limits of its own also needs ${LIMIT_OPTIONS}.`)
  const pasted = { id: client, plan: plan ?? '', ...(limits && { limits }), keys: [entry] }
  for (const line of yamlLines({ clients: [pasted] })) say(line)
}

type KeysChangeOptions = Readonly<Record<'key' | 'write', string>>

export async function keysRotateCommand(
  output: Output,
  options: KeysChangeOptions &
    Pick<KeysNewOptions, 'expires' | 'json'> & { readonly grace?: string },
): Promise<void> {
  const { key: old, expires, write } = options
  const graceMs = readOption('grace', grace, options.grace ?? '24h')
  readOption('expires', dateToCome, expires)
  const ends = new Date(Date.now() + graceMs).toISOString()
  const made: Made[] = []
  const entryFor = (client: string): KeyEntry => {
    const one = newKey(client, expires)
    made.push(one)
    return one.entry
  }
  await changeClients({ file: write, env: output.env }, (clients) =>
    clients.rotated(old, entryFor, ends),
  )
  output.complain(`# ${old} stops working at ${ends}, or before if it was to expire earlier.`)
  for (const one of made) printKey(output, options, one)
}

export async function keysRevokeCommand(
  { env, complain }: Output,
  { key, write }: KeysChangeOptions,
): Promise<void> {
  await changeClients({ file: write, env }, (clients) => clients.without(key))
  complain(
    `# ${key} is removed from ${write}. A running gateway refuses it after \`tollgate reload\`.`,
  )
}

type Made = ReturnType<typeof newKey>

/** Prints the key, which is never shown again. */
function printKey(
  { print, complain }: Output,
  { json = false, write }: Pick<KeysNewOptions, 'json' | 'write'>,
  { key, client, entry }: Made,
): void {
  const keyId = entry.id
  const say = json || write !== undefined ? complain : print
  say('# The new key. It is shown only this once; give it to the client:')
  print(json ? JSON.stringify({ key, keyId, client, expires: entry.expires ?? null }) : key)
  if (write !== undefined)
    say(`# Its id is ${keyId}. A running gateway accepts it after \`tollgate reload\`.`)
}

/** Changes the clients of a file; text that a gateway would refuse is not written. */
async function changeClients(
  { file, env, mayMake = false }: { file: string; env: Environment; mayMake?: boolean },
  change: (clients: ClientText) => string,
): Promise<void> {
  const [folder, endings] = [dirname(file), clientFileEndings.join(' or ')]
  if (isAbsent(folder)) throw refused(`${folder}: is not there; make it first`)
  if (mayMake && isAbsent(file) && !clientFileEndings.includes(extname(file)))
    throw refused(`${file}: is not there; end its name in ${endings}`)
  const check = (text: string, path: string): void => checkClients(text, { name: file, path, env })
  await rewriteFile(file, {
    change: (text) => change(new ClientText(file, text)),
    judge: check,
    mayMake,
  }).catch((error: unknown) => {
    // Faults that the file had before are reported first, with their place in the file as it is.
    if (!isAbsent(file)) check(readText(file), file)
    throw error
  })
}

/** Checks whether a file with clients in it would be taken, as far as it can: the plans of a client file stand in the configuration that names it. Throws ConfigError with every problem. path: where the text stands; name: its file in messages. */
function checkClients(
  text: string,
  { name, path, env }: { readonly name: string; readonly path: string; readonly env: Environment },
): void {
  const tree = isJsonLines(name) ? undefined : readYaml(text, undefined).tree
  const isConfig = isGroup(tree) && Object.keys(tree).some((key) => key !== 'clients')
  if (isConfig) return void parseConfigText(text, { file: name, env })
  const read = readClients(path)
  const sources = [{ name, bytes: Buffer.byteLength(text), read }]
  const { faults } = build(sources, plansOf(read), 0)
  if (faults.length > 0) throw new ConfigError(name, faults)
}

/** Derives plans from the first client of each: a custom plan is one whose clients have limits of their own. */
function plansOf(read: ClientSource['read']): Group {
  const plans = new Map<string, Group>()
  read(({ plain, parse }) => {
    const client = (plain() as Tree | undefined) ?? parse()?.tree
    const plan = textAt(client, 'plan')
    if (plan !== undefined && !plans.has(plan))
      plans.set(plan, has(client, 'limits') ? { custom: 'true' } : {})
  })
  return Object.fromEntries(plans)
}
