/** `tollgate keys new`, `rotate` and `revoke`: makes keys, shows them once, and keeps their digests in files. */
import { dirname, extname } from 'node:path'
import { clientFileEndings, isJsonLines } from '../config/clients/entries.ts'
import { clientId, dateMs, duration, faultIn, integer, keyId, label } from '../config/scalars.ts'
import type { Leaf } from '../config/scalars.ts'
import { ConfigError } from '../config/problems.ts'
import { checkClients, checkLines } from './check-clients.ts'
import { ClientText, KeysRefused, type KeyEntry } from './key-files/client-text.ts'
import { OK, REFUSED, type Edge } from './edge.ts'
import { newKey } from './key-files/new-key.ts'
import { isAbsent, rewriteFile } from './key-files/rewrite-file.ts'
import { asLines } from './key-files/text-edit.ts'

type Output = Pick<Edge, 'env' | 'print' | 'complain'>

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
const GRACE_AT_MOST_MS = 400 * 24 * 60 * 60 * 1000
const grace = duration({ min: 0, max: GRACE_AT_MOST_MS })

/** Returns `fault; remedy` for the first option that is wrong. */
const faultOf = (options: readonly (readonly [string, Leaf<unknown>, string | undefined])[]) => {
  for (const [name, leaf, written] of options) {
    const fault = written === undefined ? undefined : faultIn(leaf, written)
    if (fault !== undefined) return `--${name} ${fault}`
  }
  return undefined
}

export const keysNewCommand = (output: Output, options: KeysNewOptions) => {
  const { client, plan, perMinute, perDay, expires, write } = options
  const fault = faultOf([
    ['client', clientId, client],
    // Key ids begin with it.
    ['client', keyId, client],
    ['plan', label, plan],
    ['per-minute', limit, perMinute],
    ['per-day', limit, perDay],
    ['expires', dateToCome, expires],
  ])
  if (fault !== undefined) return refuse(output, fault)
  if ((perMinute === undefined) !== (perDay === undefined))
    return refuse(output, '--per-minute and --per-day go together; give both, or none')
  const limits =
    perMinute === undefined ? undefined : { perMinute: Number(perMinute), perDay: Number(perDay) }
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
  say('# Put this into the configuration; if the client is there already, only its key lines.')
  if (limits === undefined)
    say('# A client of a custom plan also needs limits: give --per-minute and --per-day.')
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
  const { key: old, grace: written = '24h', expires, write } = options
  const fault = faultOf([
    ['grace', grace, written],
    ['expires', dateToCome, expires],
  ])
  if (fault !== undefined) return refuse(output, fault)
  const ends = new Date(Date.now() + grace.parse(written)).toISOString()
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
      output.complain(`# ${old} ends ${ends}, unless it did or does before.`)
      if (made !== undefined) printKey(output, options, made)
    },
  )
}

export const keysRevokeCommand = (output: Output, { key, write }: KeysChangeOptions) =>
  inFile(
    { ...output, file: write },
    (text) => text.without(key),
    () => output.complain(`# ${key} is no longer in ${write}.`),
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
  say('# The key, shown this once. Hand it to the client; the gateway never needs it:')
  print(json ? JSON.stringify({ key, keyId, client, expires: entry.expires ?? null }) : key)
  if (write !== undefined)
    say(`# Its id is ${keyId}. A running gateway lets it in after \`tollgate reload\`.`)
}

function refuse({ complain }: Output, fault: string): number {
  complain(`tollgate: ${fault}`)
  return REFUSED
}

/** Changes the clients of a file; text that a gateway would refuse is not written. */
async function inFile(
  { file, mayMake = false, ...output }: Output & { file: string; mayMake?: boolean },
  change: (clients: ClientText) => string,
  show: () => void,
): Promise<number> {
  const isLines = isJsonLines(file)
  const [folder, endings] = [dirname(file), clientFileEndings.join(' or ')]
  if (isAbsent(folder)) return refuse(output, `${folder}: is not there; make it first`)
  if (mayMake && isAbsent(file) && !clientFileEndings.includes(extname(file)))
    return refuse(output, `${file}: is not there; end its name in ${endings}`)
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
  try {
    const judge = (path: string): void => checkLines({ name: file, path })
    await rewriteFile(file, { change: changed, judge, mayMake })
  } catch (error) {
    if (error instanceof KeysRefused) return refuse(output, `${file}: ${error.message}`)
    if (!(error instanceof ConfigError)) throw error
    for (const line of error.format()) output.complain(line)
    return REFUSED
  }
  show()
  return OK
}
