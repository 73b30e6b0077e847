/** Checks both halves of a WebSocket handshake (RFC 6455 section 4), and names what may end a tunnel. */
import { connectionOptions, fieldNames } from './field-names.ts'
import { refuse, type Refusal } from './refusals.ts'

/** What a sound handshake asks for: an answer may choose from these names alone. */
export interface WebSocketOffer {
  readonly key: string
  readonly protocols: readonly string[]
  readonly extensions: readonly string[]
}

const kindOf = fieldNames({
  connection: 'connection',
  upgrade: 'upgrade',
  'sec-websocket-version': 'version',
  'sec-websocket-key': 'key',
  'sec-websocket-accept': 'accept',
  'sec-websocket-protocol': 'protocol',
  'sec-websocket-extensions': 'extensions',
})
type Fields = Partial<Record<NonNullable<ReturnType<typeof kindOf>>, string>>

/** Field values by kind. Several fields of a kind, look-alikes included, are joined, which is valid for lists alone. */
function readFields(rawHeaders: readonly string[]): Fields {
  const fields: Fields = {}
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const kind = kindOf(rawHeaders[at] ?? '')
    const value = rawHeaders[at + 1] ?? ''
    if (kind !== undefined) fields[kind] = kind in fields ? `${fields[kind]},${value}` : value
  }
  return fields
}

/** Names of the members of a list, without their parameters. */
const names = (list = ''): string[] =>
  list
    .split(',')
    .map((member) => member.replace(/;.*/s, '').trim())
    .filter((name) => name !== '')

/** RFC 6455 4.2.1: 16 bytes in base64. */
const keyForm = /^[A-Za-z0-9+/]{22}==$/
/** Names the supported version (RFC 6455 4.4). 426 is not among the answers of this gateway. */
const WRONG_VERSION = refuse('invalid_request', {
  cause: 'Sec-WebSocket-Version is not 13',
  fields: ['Sec-WebSocket-Version', '13'],
})
const BAD_KEY = refuse('invalid_request', { cause: 'Sec-WebSocket-Key is not one of 16 bytes' })

/** rawHeaders: of a request whose framing.websocket holds. */
export function readOffer(rawHeaders: readonly string[]): WebSocketOffer | Refusal {
  const { version, key = '', protocol, extensions } = readFields(rawHeaders)
  if (version !== '13') return WRONG_VERSION
  if (!keyForm.test(key)) return BAD_KEY
  return { key, protocols: names(protocol), extensions: names(extensions) }
}

/** Why a 101 is no answer to the offer (RFC 6455 4.1); undefined when it is. accept: the expected Sec-WebSocket-Accept. */
export function handshakeFault(
  { protocols, extensions }: WebSocketOffer,
  accept: string,
  rawHeaders: readonly string[],
): string | undefined {
  const fields = readFields(rawHeaders)
  if (fields.upgrade?.toLowerCase() !== 'websocket') return 'the 101 is to no WebSocket'
  if (!connectionOptions(fields.connection ?? '').has('upgrade'))
    return 'the 101 has no Connection: Upgrade'
  if (fields.accept !== accept) return 'the 101 has a wrong Sec-WebSocket-Accept'
  if (fields.protocol !== undefined && !protocols.includes(fields.protocol))
    return 'the 101 has a protocol that was not offered'
  if (!names(fields.extensions).every((name) => extensions.includes(name)))
    return 'the 101 has an extension that was not offered'
  return undefined
}

/**
 * Close codes and reasons of tunnels that the gateway ends (RFC 6455 7.4.1): 1001 for a client that did nothing wrong and may
 * reconnect, 1008 for one that may not continue. No answer reveals whether a key has expired or was revoked.
 */
export const ownEnds = {
  idle: [1001, 'idle'],
  drain: [1001, 'the gateway goes away'],
  expired: [1008, 'the API key is not valid'],
  revoked: [1008, 'the API key is not valid'],
  banned: [1008, 'the API key is banned'],
} as const

export type OwnEnd = keyof typeof ownEnds
/** Who ended a tunnel, or why the gateway did. */
export type TunnelEnd = 'client' | 'backend' | OwnEnd
export const tunnelEnds = ['client', 'backend', ...Object.keys(ownEnds)] as TunnelEnd[]
