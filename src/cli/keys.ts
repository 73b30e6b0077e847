/** `tollgate keys new`: makes an API key, shows it once, and prints the YAML that lets it in. */
import { createHash } from 'node:crypto'
import { clientId, dateMs, faultIn, label } from '../config/scalars.ts'

interface KeysNewOptions {
  readonly client: string
  readonly plan: string
  /** A date or a timestamp with its zone; undefined: the key never expires. */
  readonly expires: string | undefined
  /** Unix time in ms: a key that is already expired is refused. */
  readonly nowMs: number
  /** A cryptographically secure source, such as that of node:crypto. */
  readonly randomBytes: (size: number) => Uint8Array
  /** Takes one line, without its line break. */
  readonly print: (line: string) => void
  /** Takes the line that says what is wrong with the arguments. */
  readonly complain: (line: string) => void
}

const keyBytes = 32
const idBytes = 3

/** RFC 6750 section 2.1: what may stand after `Bearer `. */
const b64token = /^[A-Za-z0-9\-._~+/]+=*$/

/** `fault; remedy` for the first argument that is wrong. */
const faultOf = ({ client, plan, expires, nowMs }: KeysNewOptions): string | undefined => {
  const clientFault = faultIn(clientId, client)
  if (clientFault !== undefined) return `--client ${clientFault}`
  const planFault = faultIn(label, plan)
  if (planFault !== undefined) return `--plan ${planFault}`
  if (expires === undefined) return undefined
  const expiresAtMs = dateMs.safeParse(expires)
  if (!expiresAtMs.success) return `--expires ${faultIn(dateMs, expires)}`
  return expiresAtMs.data <= nowMs
    ? '--expires is in the past; write a date still to come'
    : undefined
}

/** Exit code: 0 and the key with its YAML, or 2 and what is wrong with the arguments. */
export const keysNewCommand = (options: KeysNewOptions): number => {
  const { client, plan, expires, randomBytes, print, complain } = options
  const fault = faultOf(options)
  if (fault !== undefined) {
    complain(fault)
    return 2
  }
  const key = `tg_${Buffer.from(randomBytes(keyBytes)).toString('base64url')}`
  if (!b64token.test(key) || key.length !== 46) throw new Error('the random source gave too little')
  const sha256 = createHash('sha256').update(key).digest('hex')
  const id = `${client}-${Buffer.from(randomBytes(idBytes)).toString('hex')}`

  print('# The key, shown this once. Hand it to the client; the gateway never needs it:')
  print(key)
  print('# Put this into the configuration; if the client is there already, only its key line.')
  print('# A client of a custom plan also needs: limits: { perMinute: NUMBER, perDay: NUMBER }')
  print('clients:')
  // A colon at the end would make it a key of YAML.
  print(`  - id: ${client.endsWith(':') ? `'${client}'` : client}`)
  print(`    plan: ${plan}`)
  print('    keys:')
  print(`      - id: ${id}`)
  print(`        sha256: ${sha256}`)
  if (expires !== undefined) print(`        expires: ${expires}`)
  return 0
}
