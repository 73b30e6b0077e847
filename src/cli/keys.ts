/** `tollgate keys new`, `rotate` and `revoke`: makes keys, shows them once, and keeps their digests in files. */
import { dirname, extname } from 'node:path'
import { clientFileEndings, isJsonLines } from '../config/clients/entries.ts'
import {
  clientId,
  dateMs,
  day,
  duration,
  faultIn,
  hour,
  integer,
  keyId,
  label,
} from '../config/scalars.ts'
import type { Leaf } from '../config/scalars.ts'
import { checkClients, checkLines } from './check-clients.ts'
import { ClientText, KeysRefused, newKey, type KeyEntry } from './key-files/client-text.ts'
import { OK, type Output } from './edge.ts'
import { Fault } from './terminal/fault.ts'
import { isAbsent, rewriteFile } from './key-files/rewrite-file.ts'
import { asLines } from './key-files/text-edit.ts'

interface KeysNewOptions {
  readonly client: string
  readonly plan?: string
  readonly perMinute?: string
  readonly perDay?: string
  /** A date or a timestamp with its zone; undefined: the key never expires. */
  readonly expires?: string
  readonly write?: string
  readonly json?: boolean
}

const limit = integer({ min: 1, max: 1_000_000_000_000 })
const dateToCome = dateMs.refine((ms) => ms > Date.now(), {
  error: 'is in the past; write a date still to come',
})
const grace = duration({ min: 0, max: 400 * day })

/** Reads an option, which may be missing. Throws `fault; remedy` where it is wrong. */
export function readOption<Value>(name: string, leaf: Leaf<Value>, written: string | undefined) {
  if (written === undefined) return undefined
  const fault = faultIn(leaf, written)
  if (fault !== undefined) throw refused(`--${name} ${fault}`)
  return leaf.parse(written)
}

/** Key ids begin with the id of their client. */
export function checkClient(client: string): void {
  readOption('client', clientId, client)
  readOption('client', keyId, client)
}

const refused = (fault: string): Fault => new Fault('usage', fault)

export const keysNewCommand = (output: Output, options: KeysNewOptions) => {
  const { client, plan, expires, write } = options
  checkClient(client)
  readOption('plan', label, plan)
  const perMinute = readOption('per-minute', limit, options.perMinute)
  const perDay = readOption('per-day', limit, options.perDay)
  readOption('expires', dateToCome, expires)
  if ((perMinute === undefined) !== (perDay === undefined))
    throw refused('--per-minute and --per-day go together; give both, or none')
  const limits = perMinute === undefined || perDay === undefined ? undefined : { perMinute, perDay }
  const { key, entry } = newKey(client, expires)
  const show = () => printKey(output, options, { key, client, entry })
  if (write !== undefined)
    return inFile(
      { ...output, file: write, mayMake: true },
      (text) => text.withKey({ id: client, plan, limits }, entry),
      show,
    )
  show()
  const say = options.json === true ? output.complain : output.print
  say('# Add this to the configuration; if the client is already there, add only its key.')
  if (limits === undefined)
    say('# A plan without limits of its own also needs --per-minute and --per-day.')
  const pasted = { id: client, plan: plan ?? '', ...(limits && { limits }), keys: [entry] }
  for (const line of asLines({ clients: [pasted] })) say(line)
  return OK
}

interface KeysChangeOptions {
  readonly key: string
  readonly write: string
}

export const keysRotateCommand = (
  output: Output,
  options: KeysChangeOptions &
    Pick<KeysNewOptions, 'expires' | 'json'> & { readonly grace?: string },
) => {
  const { key: old, expires, write } = options
  const graceMs = readOption('grace', grace, options.grace) ?? 24 * hour
  readOption('expires', dateToCome, expires)
  const ends = new Date(Date.now() + graceMs).toISOString()
  let made: Made | undefined
  return inFile(
    { ...output, file: write },
    (text) =>
      text.rotated(
        old,
        (client) => {
          made = { client, ...newKey(client, expires) }
          return made.entry
        },
        ends,
      ),
    () => {
      output.complain(`# ${old} stops working at ${ends}, or before if it was to expire earlier.`)
      if (made !== undefined) printKey(output, options, made)
    },
  )
}

export const keysRevokeCommand = (output: Output, { key, write }: KeysChangeOptions) =>
  inFile(
    { ...output, file: write },
    (text) => text.without(key),
    () =>
      output.complain(
        `# ${key} is removed from ${write}. A running gateway refuses it after \`tollgate reload\`.`,
      ),
  )

interface Made {
  readonly key: string
  readonly client: string
  readonly entry: KeyEntry
}

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
async function inFile(
  { file, mayMake = false, ...output }: Output & { file: string; mayMake?: boolean },
  change: (clients: ClientText) => string,
  show: () => void,
): Promise<number> {
  const isLines = isJsonLines(file)
  const [folder, endings] = [dirname(file), clientFileEndings.join(' or ')]
  if (isAbsent(folder)) throw refused(`${folder}: is not there; make it first`)
  if (mayMake && isAbsent(file) && !clientFileEndings.includes(extname(file)))
    throw refused(`${file}: is not there; end its name in ${endings}`)
  const changed = (text: string): string => {
    const clients = new ClientText(text, isLines)
    try {
      const next = change(clients)
      const line = isLines ? text.slice(0, clients.changed.offset).split('\n').length : undefined
      checkClients(isLines ? clients.changed.text : next, { ...output, file, line })
      return next
    } catch (error) {
      // Faults that the file had before are reported first, with their place in the file as it is.
      if (!isLines) checkClients(text, { ...output, file, line: undefined })
      throw error
    }
  }
  const judge = (path: string): void => checkLines({ name: file, path })
  await rewriteFile(file, { change: changed, judge, mayMake }).catch((error: unknown) => {
    throw error instanceof KeysRefused ? refused(`${file}: ${error.message}`) : error
  })
  show()
  return OK
}
