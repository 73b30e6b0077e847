/** `tollgate keys new`: makes an API key, shows it once, and prints the YAML that lets it in. */
import { clientId, dateMs, faultIn, keyId, label } from '../config/scalars.ts'
import { OK, REFUSED, type Edge } from './edge.ts'
import { newKey } from './new-key.ts'

interface KeysNewOptions {
  readonly client: string
  readonly plan: string
  /** A date or a timestamp with its zone; undefined: the key never expires. */
  readonly expires?: string
}

/** `fault; remedy` for the first argument that is wrong. */
const faultOf = ({ client, plan, expires }: KeysNewOptions): string | undefined => {
  // Key ids begin with it.
  const clientFault = faultIn(clientId, client) ?? faultIn(keyId, client)
  if (clientFault !== undefined) return `--client ${clientFault}`
  const planFault = faultIn(label, plan)
  if (planFault !== undefined) return `--plan ${planFault}`
  if (expires === undefined) return undefined
  const expiresFault = faultIn(dateMs, expires)
  if (expiresFault !== undefined) return `--expires ${expiresFault}`
  return dateMs.parse(expires) <= Date.now()
    ? '--expires is in the past; write a date still to come'
    : undefined
}

export const keysNewCommand = (
  { print, complain }: Pick<Edge, 'print' | 'complain'>,
  options: KeysNewOptions,
): number => {
  const fault = faultOf(options)
  if (fault !== undefined) {
    complain(`tollgate: ${fault}`)
    return REFUSED
  }
  const { key, lines } = newKey(options)
  print('# The key, shown this once. Hand it to the client; the gateway never needs it:')
  print(key)
  print('# Put this into the configuration; if the client is there already, only its key line.')
  print('# A client of a custom plan also needs: limits: { perMinute: NUMBER, perDay: NUMBER }')
  print('clients:')
  for (const line of lines) print(line)
  return OK
}
