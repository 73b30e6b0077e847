/** Reads the PROXY header, versions 1 and 2, in which a TCP load balancer names the client of a connection. */
import { isIPv4, isIPv6 } from 'node:net'
import { readAddress } from './client-address.ts'

export interface ProxyHeader {
  /** Length of the header; bytes behind it are the client's. */
  readonly bytes: number
  /** IP address of the client; undefined: the connection is the balancer's own, or it does not know the client. */
  readonly address: string | undefined
}

const V1 = Buffer.from('PROXY ')
const V1_MOST_BYTES = 107
const V2 = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const V2_HEAD_BYTES = 16
/** Most bytes of addresses and what balancers append to them. */
const V2_MOST_BYTES = 528

/** 'incomplete': further bytes may make it a PROXY header. undefined: no bytes can. */
export function readProxyHeader(bytes: Buffer): ProxyHeader | 'incomplete' | undefined {
  const isV1 = startsAlike(bytes, V1)
  if (!isV1 && !startsAlike(bytes, V2)) return undefined
  return isV1 ? readText(bytes) : readBinary(bytes)
}

/** Whether the bytes are the sign, begin with it, or may still become it. */
export function startsAlike(bytes: Buffer, sign: Buffer): boolean {
  const known = Math.min(bytes.length, sign.length)
  return bytes.compare(sign, 0, known, 0, known) === 0
}

function readText(bytes: Buffer): ProxyHeader | 'incomplete' | undefined {
  const end = bytes.indexOf('\n')
  const isLong = end === -1 ? bytes.length >= V1_MOST_BYTES : end >= V1_MOST_BYTES
  if (isLong) return undefined
  if (end === -1) return 'incomplete'
  const line = bytes.toString('latin1', 0, end + 1)
  if (/^PROXY UNKNOWN(?: [^\r\n]*)?\r\n$/.test(line)) return { bytes: end + 1, address: undefined }
  const [, version, from = '', to = '', ...ports] =
    /^PROXY TCP([46]) (\S+) (\S+) (\d{1,5}) (\d{1,5})\r\n$/.exec(line) ?? []
  const isAddress = version === '4' ? isIPv4 : isIPv6
  const isSound = isAddress(from) && isAddress(to) && ports.length === 2 && ports.every(isPort)
  return isSound && !line.includes('%') ? { bytes: end + 1, address: readAddress(from) } : undefined
}

const isPort = (text: string): boolean => Number(text) < 65_536 && String(Number(text)) === text

function readBinary(bytes: Buffer): ProxyHeader | 'incomplete' | undefined {
  if (bytes.length < V2_HEAD_BYTES) return 'incomplete'
  const [versionAndCommand, familyAndTransport] = bytes.subarray(12)
  const length = V2_HEAD_BYTES + bytes.readUInt16BE(14)
  const isLocal = versionAndCommand === 0x20
  if ((!isLocal && versionAndCommand !== 0x21) || length > V2_MOST_BYTES) return undefined
  const isUnknown = isLocal || familyAndTransport === 0x00
  const addressBytes = isUnknown ? 0 : { 0x11: 4, 0x21: 16 }[familyAndTransport ?? 0]
  if (addressBytes === undefined) return undefined
  // The header holds two addresses and two ports.
  if (!isUnknown && length < V2_HEAD_BYTES + 2 * addressBytes + 4) return undefined
  if (bytes.length < length) return 'incomplete'
  if (isUnknown) return { bytes: length, address: undefined }
  const from = bytes.subarray(V2_HEAD_BYTES, V2_HEAD_BYTES + addressBytes)
  const text = addressBytes === 4 ? from.join('.') : from.toString('hex').match(/.{4}/g)?.join(':')
  return { bytes: length, address: readAddress(text ?? '') }
}
