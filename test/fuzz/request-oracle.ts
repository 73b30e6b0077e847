/**
 * A second opinion on what a client has sent: which requests the bytes of a connection hold (RFC 9112, read strictly), and
 * what the contract says of each, up to the first that ends the connection. Written from the documents; shares nothing with src.
 */

import { fieldOf, readChunked, tchar } from './message-syntax.ts'

export interface OracleWorld {
  readonly basePath: string
  readonly limits: { headerBytes: number; headerCount: number; bodyBytes: number; urlBytes: number }
  /** Client id by key. */
  readonly clients: ReadonlyMap<string, string>
}

/** What the backend is to receive. */
export interface Forwarded {
  readonly method: string
  readonly target: string
  readonly body: string
  readonly hasLength: boolean
  readonly host: string
  readonly client: string
  /** Fields of the client that must arrive as they are: `name: value`. */
  readonly fields: readonly string[]
}

/** One request, or what stands where one should be. */
export interface Reading {
  /** Whether the answer to it has a body; of what is no request, nobody knows. */
  readonly isHead: boolean | undefined
  readonly version: string
  /** The backend may receive this; it must, if no statuses are there. */
  readonly forward: Forwarded | undefined
  /** The backend may see the beginning of this. */
  readonly brokenOff: Forwarded | undefined
  /** The gateway may answer so by itself. */
  readonly statuses: ReadonlySet<number>
  /** The bytes end before it does: it may be left without an answer. */
  readonly unfinished: boolean
  /** Nothing but a time-out may ever tell what is wrong with it. */
  readonly isSilent: boolean
  readonly mayContinue: boolean
  /** Nothing behind it is served. */
  readonly last: boolean
  /** Nothing in it gives a reason to close the connection behind its answer. */
  readonly persists: boolean
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
/** RFC 9112 3: more than one space may be taken for one. Node's parser takes RTSP for HTTP, and does not say so. */
const requestLine = new RegExp(`^(${tchar}+) +([\\x21-\\x7e]+) +(?:HTTP|RTSP)/(1\\.[01])$`)
/** Field names as CGI and its heirs see them. */
const plain = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-')

/** Verdicts of one message as they add up. */
class Verdict {
  readonly statuses = new Set<number>()
  /** It must be refused with one of the statuses; else they are possible. */
  mustRefuse = false

  refuse(...statuses: number[]): void {
    this.mustRefuse = true
    for (const status of statuses) this.statuses.add(status)
  }
  mayRefuse(...statuses: number[]): void {
    for (const status of statuses) this.statuses.add(status)
  }
}

interface Head {
  readonly method: string
  readonly target: string
  readonly version: string
  readonly fields: readonly { name: string; value: string }[]
  all(name: string): string[]
}

export function readConnection(text: string, world: OracleWorld): Reading[] {
  const readings: Reading[] = []
  let at = 0
  while (at < text.length) {
    const { reading, next } = readOne(text, at, world)
    if (reading !== undefined) readings.push(reading)
    if (reading === undefined || reading.last || reading.unfinished) break
    at = next
  }
  return readings
}

function readOne(
  text: string,
  start: number,
  world: OracleWorld,
): { reading: Reading | undefined; next: number } {
  const verdict = new Verdict()
  let at = start
  // RFC 9112 2.2: an empty line before a request should be ignored; more than that is nobody's promise.
  while (text[at] === '\r' || text[at] === '\n') at++
  if (at > start) verdict.mayRefuse(400)
  if (at === text.length) {
    const reading = at === start ? undefined : refused(verdict, { unfinished: true })
    return { reading, next: at }
  }
  const end = text.indexOf('\r\n\r\n', at)
  const head = readHead(text.slice(at, end === -1 ? undefined : end), verdict, world)
  if (end === -1) {
    verdict.mayRefuse(400, 408, 431, 414, 501)
    return { reading: refused(verdict, { unfinished: true }), next: text.length }
  }
  if (head === undefined) return { reading: refused(verdict, { unfinished: false }), next: end }
  return readMessage(text, end + 4, { head, verdict, world })
}

function refused(verdict: Verdict, { unfinished }: { unfinished: boolean }): Reading {
  return {
    isHead: undefined,
    version: '1.1',
    forward: undefined,
    brokenOff: undefined,
    statuses: verdict.statuses,
    unfinished,
    isSilent: false,
    mayContinue: false,
    last: true,
    persists: false,
  }
}

/** undefined: no request can be read from it at all. */
function readHead(text: string, verdict: Verdict, { limits }: OracleWorld): Head | undefined {
  const [first = '', ...lines] = text.split('\r\n')
  const line = requestLine.exec(first)
  const [, method = '', target = '', version = ''] = line ?? []
  const word = /^[A-Za-z]*/.exec(first)?.[0] ?? ''
  if (!METHODS.has(line ? method : word)) verdict.refuse(501)
  if (!METHODS.has(line ? method : word) || !line) verdict.refuse(400)
  // Its length may be refused first.
  if (!line && /^content-length:[ \t]*\d{4,}/im.test(text)) verdict.mayRefuse(413)
  if (/ {2}| RTSP/.test(first)) verdict.mayRefuse(400)
  if (first.length > limits.urlBytes) verdict.mayRefuse(414)
  if (text.length > limits.headerBytes) verdict.mayRefuse(431)
  const fields: { name: string; value: string }[] = []
  let bytes = 0
  for (const each of lines) {
    const field = fieldOf(each)
    if (field === undefined) {
      verdict.refuse(400)
      continue
    }
    bytes += field.name.length + field.value.length + 4
    fields.push(field)
  }
  if (lines.length > limits.headerCount || bytes > limits.headerBytes) verdict.refuse(431)
  const all = (name: string): string[] =>
    fields.filter((field) => field.name.toLowerCase() === name).map(({ value }) => value)
  // The framing may be judged before the target.
  if (!line && all('expect').length > 0) verdict.mayRefuse(411)
  if (!line) return undefined
  return { method, target, version, fields, all }
}

interface Message {
  readonly head: Head
  readonly verdict: Verdict
  readonly world: OracleWorld
}

function readMessage(
  text: string,
  bodyAt: number,
  message: Message,
): { reading: Reading; next: number } {
  const { head, verdict, world } = message
  const { method, version } = head
  readFraming(message)
  const target = readTarget(message)
  const options = head
    .all('connection')
    .join(',')
    .toLowerCase()
    .split(/[ \t]*,[ \t]*/)
  const closes = options.includes('close') || (version === '1.0' && !options.includes('keep-alive'))
  const expects = head.all('expect').some((value) => value.toLowerCase().includes('100-continue'))
  const told = {
    isHead: method === 'HEAD',
    version,
    mayContinue: expects && version === '1.1',
  }
  // Sizes, framing and target come before all else, and what they refuse ends the connection.
  if (verdict.mustRefuse || target === undefined)
    return { reading: { ...refused(verdict, { unfinished: false }), ...told }, next: bodyAt }

  const body = readBody(text, bodyAt, message)
  const client = readCredential(head, world)
  const isInside = target === world.basePath || target.startsWith(`${world.basePath}/`)
  const isAsterisk = target === '*'
  const forward: Forwarded | undefined =
    isAsterisk || !isInside || client === undefined
      ? undefined
      : { method, target, client, ...bodyOf(body, head), ...passedOn(head) }
  // A body that breaks off may be noticed before or behind another refusal.
  const statuses = new Set([...verdict.statuses, ...body.statuses])
  if (isAsterisk) statuses.add(200)
  else if (!isInside) statuses.add(404)
  else if (client === undefined) statuses.add(401)
  else if (target.split('?')[0] === world.basePath) statuses.add(404)
  const isWhole = body.end !== undefined && !body.isTooLarge
  // Node's parser keeps the faults of a body behind an Upgrade to itself.
  const isSilent = body.statuses.length > 0 && head.all('upgrade').length > 0
  const reading: Reading = {
    ...told,
    forward: isWhole ? forward : undefined,
    brokenOff: isWhole ? undefined : forward,
    statuses,
    unfinished: body.unfinished || isSilent,
    isSilent,
    // Behind a body that is too large, but sound, the next request may have begun before anybody noticed.
    last: body.end === undefined || closes,
    persists:
      !closes &&
      isWhole &&
      head.all('upgrade').length + head.all('expect').length === 0 &&
      version === '1.1',
  }
  return { reading, next: body.end ?? text.length }
}

function bodyOf(body: Body, head: Head): Pick<Forwarded, 'body' | 'hasLength'> {
  return { body: body.content, hasLength: head.all('content-length').length > 0 }
}

/** X-Probe fields stand for all that is nobody's business but the backend's, unless Connection nominates them. */
function passedOn(head: Head): Pick<Forwarded, 'host' | 'fields'> {
  const nominated = head
    .all('connection')
    .join(',')
    .toLowerCase()
    .split(/[ \t]*,[ \t]*/)
  const fields = head.fields
    .filter(({ name }) => /^x-probe/i.test(name) && !nominated.includes(name.toLowerCase()))
    .map(({ name, value }) => `${name}: ${value}`)
  return { host: head.all('host')[0] ?? '', fields }
}

function readFraming({ head, verdict, world }: Message): void {
  const hosts = head.all('host')
  if (hosts.length !== 1) verdict.refuse(400)
  for (const host of hosts) {
    if (/^[A-Za-z0-9.-]+(?::[0-9]{1,5})?$/.test(host)) continue
    if (/^(?:[A-Za-z0-9._~!$&'()*+;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?$/.test(host))
      verdict.mayRefuse(400)
    else verdict.refuse(400)
  }
  const lengths = head.all('content-length')
  const codings = head.all('transfer-encoding')
  const framing = head.fields.filter(({ name }) =>
    ['content-length', 'transfer-encoding'].includes(plain(name)),
  )
  // Doubled, contradicting, or spelt so that only some would take it for what it is.
  if (framing.length > 1 || framing.length > lengths.length + codings.length) verdict.refuse(400)
  for (const length of lengths) {
    if (!/^[0-9]+$/.test(length)) verdict.refuse(400)
    else if (/^0[0-9]/.test(length) || length.length > 15) verdict.mayRefuse(400)
    if (Number(length) > world.limits.bodyBytes) verdict.refuse(413)
  }
  for (const coding of codings) if (coding.toLowerCase() !== 'chunked') verdict.refuse(400)
  if (codings.length > 0 && head.version === '1.0') verdict.refuse(400)
  const isExpecting = head.all('expect').some((value) => /100-continue/i.test(value))
  if (isExpecting && framing.length === 0) verdict.mayRefuse(411)
}

/** In origin form, as the backend is to see it; undefined when it must be refused. */
function readTarget({ head, verdict, world }: Message): string | undefined {
  const { method, target } = head
  const length = target.length
  if (length > world.limits.urlBytes) {
    verdict.refuse(414)
    verdict.mayRefuse(400)
    // Longer than what the parser holds, nobody tells how it is framed.
    return undefined
  }
  if (target === '*' && method === 'OPTIONS') return target
  const absolute = /^(https?):\/\/([^/?#]*)(.*)$/i.exec(target)
  if (absolute) {
    const [, scheme = '', authority = '', rest = ''] = absolute
    // RFC 9112 3.2.2, and the origin is ours if it is the one that Host names; RFC 3986 6.2.3: an empty port is that of the scheme.
    const origin = (name: string): string => name.toLowerCase().replace(/:(?:80)?$/, '')
    if (authority === '' || origin(authority) !== origin(head.all('host')[0] ?? ''))
      verdict.refuse(400)
    if (scheme.toLowerCase() !== 'http') verdict.refuse(400)
    // RFC 9112 3.2.4: the asterisk, or the root.
    if (method === 'OPTIONS' && rest === '') verdict.mayRefuse(200)
    return readOriginForm(rest.startsWith('/') ? rest : `/${rest}`, verdict)
  }
  if (!target.startsWith('/')) {
    verdict.refuse(400)
    return undefined
  }
  return readOriginForm(target, verdict)
}

function readOriginForm(target: string, verdict: Verdict): string {
  const [path = '', ...query] = target.split('?')
  const isBad =
    /[#\\]|%(?![0-9a-fA-F]{2})/.test(target) ||
    /%(?:2f|5c|00|2e)/i.test(path) ||
    /\/\.{1,2}(?:\/|$)/.test(path) ||
    path.includes('//')
  if (isBad) verdict.refuse(400)
  const isPlain =
    /^(?:[/A-Za-z0-9._~!$&'()*+,=:@-]|%20|%C3%A9)*$/.test(path) &&
    /^(?:[/A-Za-z0-9._~!$&'()*+,;=:@?-]|%[0-9a-fA-F]{2})*$/.test(query.join('?'))
  if (!isPlain) verdict.mayRefuse(400)
  return target
}

interface Body {
  readonly content: string
  /** Where the next request begins; undefined: the body is not whole. */
  readonly end: number | undefined
  readonly isTooLarge?: boolean
  readonly unfinished: boolean
  readonly statuses: readonly number[]
}

function readBody(text: string, at: number, { head, world }: Message): Body {
  const [length] = head.all('content-length')
  if (length !== undefined) {
    const end = at + Number(length)
    if (end > text.length)
      return { content: text.slice(at), end: undefined, unfinished: true, statuses: [400, 408] }
    return { content: text.slice(at, end), end, unfinished: false, statuses: [] }
  }
  if (head.all('transfer-encoding').length > 0) return readChunks(text, at, world)
  return { content: '', end: at, unfinished: false, statuses: [] }
}

function readChunks(text: string, start: number, { limits }: OracleWorld): Body {
  const { content, end, isUnfinished, isDoubtful } = readChunked(text.slice(start))
  // A chunk that is too large may be refused by its size, or once too much of it is there.
  const isTooLarge = content.length > limits.bodyBytes
  const statuses = isDoubtful ? [400, 413, 431] : []
  if (isTooLarge) statuses.push(413)
  if (end === undefined) statuses.push(400, 413, 431)
  const unfinished = isUnfinished && !isTooLarge
  if (unfinished) statuses.push(408)
  return {
    content,
    end: end === undefined ? undefined : start + end,
    isTooLarge,
    unfinished,
    statuses,
  }
}

/** The client of the key in exactly one Bearer credential; undefined: 401. */
function readCredential(head: Head, { clients }: OracleWorld): string | undefined {
  const [value = '', ...more] = head.all('authorization')
  const key = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i.exec(value)?.[1]
  return key === undefined || more.length > 0 ? undefined : clients.get(key)
}
