/** `tollgate complete`, which shells call: prints each word that may follow, with its description. */
import type { Argument, Command, Option } from 'commander'
import type { Bans } from '../../insight/api/state.ts'
import type { ClientsPage } from '../../insight/api/usage.ts'
import { OK } from '../terminal/fault.ts'
import { ask, DEFAULT_ADMIN } from './admin-client.ts'
import type { Output } from './asking.ts'

/** A person who pressed a key waits no longer. */
const WITHIN_MS = 200

interface CompleteOptions {
  /** The line as far as it is written. */
  readonly line: string
  readonly program: Command
}

/** Prints nothing where it has no answer: a shell shows no faults. */
export async function completeCommand(
  { env, print }: Pick<Output, 'env' | 'print'>,
  { line, program }: CompleteOptions,
): Promise<number> {
  const words = line.split(/\s+/).slice(1)
  const typed = words.pop() ?? ''
  const { command, asked, operands, admin = DEFAULT_ADMIN } = placeAfter(program, words)
  const help = command.createHelp()
  const found: Candidate[] = []
  if (asked === undefined && typed.startsWith('-'))
    for (const { long, description } of help.visibleOptions(command))
      if (long !== undefined && !words.includes(long)) found.push([long, description])
  if (asked === undefined && operands === 0)
    for (const each of help.visibleCommands(command)) found.push([each.name(), each.description()])
  const value = asked ?? command.registeredArguments[operands]
  if (value !== undefined)
    found.push(...(await valuesOf(value, command, { admin, env, start: typed })))
  for (const [word, meaning] of found)
    if (word.startsWith(typed) && /^[\w.:@+-]+$/.test(word)) print(`${word}\t${meaning}`)
  return OK
}

/** Walks the words as the parser would. asked: the option whose value comes next. */
function placeAfter(program: Command, words: readonly string[]) {
  let command = program
  let asked: Option | undefined
  let operands = 0
  let admin: string | undefined
  for (const word of words) {
    const isValue = asked !== undefined
    if (asked?.long === '--admin') admin = word
    asked = isValue
      ? undefined
      : command.options.find(({ long, required }) => long === word && required)
    if (isValue || word.startsWith('-')) continue
    const next = operands === 0 ? command.commands.find((each) => each.name() === word) : undefined
    if (next === undefined) operands++
    else command = next
  }
  return { command, asked, operands, admin }
}

type Candidate = readonly [word: string, meaning: string]

/** Returns choices, or ids from a gateway. */
async function valuesOf(
  asked: Option | Argument,
  command: Command,
  { start, ...gateway }: { readonly admin: string; readonly env: Output['env']; start: string },
): Promise<Candidate[]> {
  if (asked.argChoices !== undefined) return asked.argChoices.map((word) => [word, ''])
  const [, name] = /\b(client|key-id)\b/.exec('flags' in asked ? asked.flags : asked.name()) ?? []
  if (name === undefined || !command.options.some(({ long }) => long === '--admin')) return []
  const call = { signal: AbortSignal.timeout(WITHIN_MS) }
  try {
    if (command.name() === 'lift') {
      const { bans } = await ask<Bans>(gateway, '/api/bans', call)
      return bans.map(({ key, client, reason }) => [key, reason ?? client ?? ''])
    }
    // The id of most keys begins with that of their client.
    const q = name === 'client' ? start : start.replace(/-?[^-]*$/, '')
    const query = new URLSearchParams({ sort: 'id', q }).toString()
    const { clients } = await ask<ClientsPage>(gateway, `/api/clients?${query}`, call)
    if (name === 'client') return clients.map(({ id, plan }) => [id, plan])
    return clients.flatMap(({ id, keys }) => keys.map((key): Candidate => [key.id, id]))
  } catch {
    return []
  }
}
