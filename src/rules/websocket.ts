/** Both halves of a WebSocket handshake (RFC 6455 section 4): what a client has to ask, and whether a backend's 101 is an answer to it. */
import { connectionOptions, fieldNames } from './field-names.ts'
import { refuse, type Refusal } from './refusals.ts'

/** What a sound handshake asks for. */
export interface WebSocketOffer {
  readonly key: string
  /** Names as received: an answer may choose from these alone. */
  readonly protocols: ReadonlySet<string>
  readonly extensions: ReadonlySet<string>
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
type Kind = Exclude<ReturnType<typeof kindOf>, undefined>

/** Values by kind of field. A look-alike counts as the field, so that it stands beside none. */
function readFields(rawHeaders: readonly string[]): Record<Kind, string[]> {
  const fields: Record<Kind, string[]> = {
    connection: [],
    upgrade: [],
    version: [],
    key: [],
    accept: [],
    protocol: [],
    extensions: [],
  }
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const kind = kindOf(rawHeaders[at] ?? '')
    if (kind !== undefined) fields[kind].push(rawHeaders[at + 1] ?? '')
  }
  return fields
}

/** RFC 6455 4.2.1: 16 bytes in base64. */
const keyForm = /^[A-Za-z0-9+/]{22}==$/
/** RFC 6455 4.4: says which version would do. 426 is not among the answers of this gateway. */
const WRONG_VERSION = refuse('invalid_request', {
  cause: 'Sec-WebSocket-Version is not 13',
  fields: ['Sec-WebSocket-Version', '13'],
})
const BAD_KEY = refuse('invalid_request', {
  cause: 'Sec-WebSocket-Key is not one of 16 bytes in base64',
})
const NOMINATED = refuse('invalid_request', {
  cause: 'Connection nominates a field of the handshake',
})

/** rawHeaders: of a request whose framing.websocket holds; nominated: of its framing. */
export function readOffer(
  rawHeaders: readonly string[],
  nominated: ReadonlySet<string>,
): WebSocketOffer | Refusal {
  const { version, key, protocol, extensions } = readFields(rawHeaders)
  if (version.length !== 1 || version[0] !== '13') return WRONG_VERSION
  const [only = ''] = key
  if (key.length !== 1 || !keyForm.test(only)) return BAD_KEY
  // It would be taken away on the way to the backend.
  for (const name of nominated) if (name.startsWith('sec-websocket-')) return NOMINATED
  return { key: only, protocols: new Set(names(protocol)), extensions: new Set(names(extensions)) }
}

/** Why a 101 is no answer to the offer (RFC 6455 4.1); undefined when it is. accept: what its Sec-WebSocket-Accept has to be. */
export function handshakeFault(
  { protocols, extensions }: WebSocketOffer,
  accept: string,
  rawHeaders: readonly string[],
): string | undefined {
  const fields = readFields(rawHeaders)
  if (fields.upgrade.join().toLowerCase() !== 'websocket') return 'the 101 is to no WebSocket'
  if (!connectionOptions(fields.connection.join()).has('upgrade'))
    return 'the 101 has no Connection: Upgrade'
  if (fields.accept.join() !== accept) return 'the 101 has a wrong Sec-WebSocket-Accept'
  const [protocol, ...more] = fields.protocol
  if (more.length > 0 || (protocol !== undefined && !protocols.has(protocol)))
    return 'the 101 has a protocol that was not offered'
  if (!names(fields.extensions).every((name) => extensions.has(name)))
    return 'the 101 has an extension that was not offered'
  return undefined
}

/** Of the members of a list, without their parameters. */
function names(values: readonly string[]): string[] {
  const members = values.join().split(',')
  return members.map((member) => (member.split(';')[0] ?? '').trim()).filter((name) => name !== '')
}

/**
 * Close frames of tunnels that the gateway ends (RFC 6455 7.4.1): 1001 where one side goes away and may be called again, which a
 * client that was silent may just as well as one of a gateway that stops; 1008 for who may not go on.
 */
export const ownEnds = {
  idle: { code: 1001, reason: 'idle' },
  drain: { code: 1001, reason: 'the gateway goes away' },
  // Which of the two is as much as no answer tells.
  expired: { code: 1008, reason: 'the API key is not valid' },
  revoked: { code: 1008, reason: 'the API key is not valid' },
  banned: { code: 1008, reason: 'the API key is banned' },
} as const

export type OwnEnd = keyof typeof ownEnds

/** Who ended a tunnel, or why the gateway did. */
export type TunnelEnd = 'client' | 'backend' | OwnEnd

export const tunnelEnds: readonly TunnelEnd[] = [
  'client',
  'backend',
  ...(Object.keys(ownEnds) as OwnEnd[]),
]
