/**
 * The gateways of one store. Each writes there every few seconds who it is and by which address the others reach its admin
 * listener; the one that an operator asks asks the others what they know themselves. Whoever can write to the store could write
 * any address there, so an entry, a question and an answer count only with a proof: an HMAC by a key that gateways with the same
 * admin.tokenSha256 derive from it. The token itself they do not have, and never send.
 */
import { createHmac, randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { lookup as lookUpName } from 'node:dns'
import { once } from 'node:events'
import { request as requestHttp, type IncomingMessage } from 'node:http'
import type { LookupFunction } from 'node:net'
import { text } from 'node:stream/consumers'
import type { ConnectionOptions } from 'node:tls'
import { promisify } from 'node:util'
import type { FleetNeeds, Prove } from '../../admin/operation.ts'
import type { Gateway } from './gateway.ts'

/** Its number goes up whenever an answer that is added up changes its shape: gateways of other numbers do not know each other. */
const SALT = 'tollgate fleet 1'
const SIGN_EVERY_MS = 2_000
/** How long a proof is worth something, and how much clocks may differ; they follow the store's. */
const RECENT_MS = 30_000
/** No operator waits longer for the others; nor are they asked the same more often. */
const ROUND_MS = 1_000
/** Different questions to the others within that time; beyond them a flood gets the figures of this gateway alone. */
const ROUNDS_AT_MOST = 16
const ANSWER_BYTES = 4 * 1024 * 1024

const FIELD = 'tollgate-fleet'
const ID = /^[0-9a-f]{12}$/
/** What a gateway writes of itself: address, time and proof. */
const NOTE = /^(https?:\/\/[\w.:[\]-]{1,280}) (\d{1,15}) ([\w-]{43})$/
/** What the field of a question holds: time, nonce and proof. */
const QUESTION = /^(\d{1,15}) ([\w-]{16}) ([\w-]{43})$/

type Round = Awaited<ReturnType<FleetNeeds['ask']>>
/** What a gateway has said, or in words why it has said nothing. */
type Said = { readonly name: string; readonly part?: unknown; readonly why: string }

/** The derivation is slow: whoever reads the store sees proofs, and could try tokens by them. */
const derive = (from: string): Promise<Buffer> =>
  promisify<string, string, number, Buffer>(scrypt)(from, SALT, 32)

/** said: what is proven; its first part says of which kind it is, so that no proof does for another kind. */
const proofOf = (key: Buffer, ...said: readonly string[]): string =>
  createHmac('sha256', key).update(JSON.stringify(said)).digest('base64url')

function isProof(given: unknown, key: Buffer, ...said: readonly string[]): boolean {
  const [one, other] = [Buffer.from(String(given)), Buffer.from(proofOf(key, ...said))]
  return one.length === other.length && timingSafeEqual(one, other)
}

export class Fleet implements FleetNeeds {
  readonly #gateway: Gateway
  /** For addresses with https. */
  readonly #tls: ConnectionOptions
  /** Unique per boot. */
  readonly #id = randomBytes(6).toString('hex')
  /** Proven addresses of the others that live, by id, as the store said last; undefined: none is proven. Written by #sign. */
  #others: ReadonlyMap<string, string | undefined> = new Map()
  /** Why the others cannot be known, although the store answers. Written by #sign. */
  #fault: string | undefined
  /** The key, and the digest that it is derived from. Written by #key. */
  #derived: { readonly from: string; readonly key: Promise<Buffer | undefined> } | undefined
  readonly #rounds = new Map<string, Promise<Round>>()
  /** Resolves when the latest look-up of a name is over. Written by #partOf. */
  #lookedUp: Promise<unknown> = Promise.resolve()
  readonly #nowMs = (): number => this.#gateway.workers.stores.clock.nowMs()
  #signing: NodeJS.Timeout | undefined

  constructor(gateway: Gateway, tls: ConnectionOptions) {
    this.#gateway = gateway
    this.#tls = tls
  }

  /** Called when the admin listener answers. */
  start(): void {
    if (this.#gateway.workers.stores.register === undefined) return
    void this.#sign(false)
    this.#signing = setInterval(() => void this.#sign(false), SIGN_EVERY_MS).unref()
  }

  /** Says that this gateway is about to end. Never rejects. */
  async close(): Promise<void> {
    clearInterval(this.#signing)
    if (this.#signing !== undefined) await this.#sign(true)
  }

  ask(target: string): Promise<Round> {
    const known = this.#rounds.get(target)
    if (known !== undefined) return known
    if (this.#rounds.size >= ROUNDS_AT_MOST) return this.#askAll(undefined)
    const round = this.#askAll(target)
    this.#rounds.set(target, round)
    setTimeout(() => this.#rounds.delete(target), ROUND_MS).unref()
    return round
  }

  async proverFor({ method, url = '', headers }: IncomingMessage): Promise<Prove | undefined> {
    const [, time = '', nonce = '', proof] = QUESTION.exec(String(headers[FIELD])) ?? []
    const { advertise } = this.#gateway.reloads.config.admin
    if (method !== 'GET' || advertise === undefined || !this.#isRecent(time)) return undefined
    const key = await this.#key()
    // A question that names another gateway or address was passed on by somebody who is neither.
    if (!key || !isProof(proof, key, 'question', this.#id, advertise, url, time, nonce))
      return undefined
    return (answer) => ({
      ...answer,
      fields: { ...answer.fields, [FIELD]: proofOf(key, 'answer', nonce, answer.body) },
    })
  }

  /** undefined: nobody shares the store, or no credential proves anything. */
  #key(): Promise<Buffer | undefined> | undefined {
    const { reloads, workers } = this.#gateway
    const { tokenSha256: from } = reloads.config.admin
    if (from === undefined || workers.stores.register === undefined) return undefined
    // A derivation that fails is tried again with the next sign.
    const forget = (): undefined => (this.#derived = undefined)
    if (this.#derived?.from !== from) this.#derived = { from, key: derive(from).catch(forget) }
    return this.#derived.key
  }

  #isRecent(timeMs: string): boolean {
    return timeMs !== '' && Math.abs(this.#nowMs() - Number(timeMs)) <= RECENT_MS
  }

  /** Never rejects: while the store is away, the gateways that were there before are asked. */
  async #sign(isLast: boolean): Promise<void> {
    const { reloads, workers, log } = this.#gateway
    const id = this.#id
    const before = this.#fault
    try {
      const key = await this.#key()
      const { advertise } = reloads.config.admin
      const time = String(this.#nowMs())
      const proof = key && advertise && proofOf(key, 'entry', id, advertise, time)
      const note = proof === undefined ? '' : `${advertise} ${time} ${proof}`
      const notes = await workers.stores.register?.(id, isLast ? undefined : note)
      const others = [...(notes ?? [])].filter(([other]) => ID.test(other) && other !== id)
      this.#others = new Map(
        others.map(([other, text]) => [other, key && this.#addressIn(text, key, other)]),
      )
      this.#fault = undefined
    } catch (error) {
      // It is tried again with the next sign. While the store is away, other lines of the log say so.
      const { message: word } = error as Error
      const isAway = !workers.stores.health.available
      this.#fault = isAway ? undefined : `the register of gateways cannot be used (${word})`
      if (before === undefined && this.#fault) log.storeWarning({ warning: this.#fault })
    }
  }

  /** Returns the address in the note that the gateway of this id proves to be its own; undefined: there is none. */
  #addressIn(note: string, key: Buffer, id: string): string | undefined {
    const [, address = '', time = '', proof] = NOTE.exec(note) ?? []
    const isProven = this.#isRecent(time) && isProof(proof, key, 'entry', id, address, time)
    return isProven && URL.canParse(address) ? address : undefined
  }

  /** target: undefined: nobody is asked, and all others count as silent. */
  async #askAll(target: string | undefined): Promise<Round> {
    const key = await this.#key()
    const { advertise = this.#id } = this.#gateway.reloads.config.admin
    const signal = AbortSignal.timeout(ROUND_MS)
    const asked = Array.from(this.#others, async ([id, address]): Promise<Said> => {
      const unknown = key
        ? 'no admin.advertise, or another token'
        : 'this gateway has no admin.token'
      if (!key || !address) return { name: id, why: `${id}: ${unknown}` }
      if (target === undefined) return { name: address, why: `${address} was not asked` }
      return this.#partOf(key, [id, address, target], signal)
    })
    const all = await Promise.all(asked)
    const known = all.filter(({ part }) => part !== undefined)
    const answered = [advertise, ...known.map(({ name }) => name)]
    const missing = all.filter(({ part }) => part === undefined)
    const silent = missing.map(({ name }) => name).filter((name) => !answered.includes(name))
    const why = missing.map(({ name, why }) =>
      answered.includes(name) ? `${name} stands for two gateways, or for one started anew` : why,
    )
    const reasons = [...new Set([...why, this.#fault ?? []].flat())]
    const gateways = { answered, silent: [...new Set(silent)], why: reasons }
    return { parts: known.map(({ part }) => part), gateways }
  }

  /** Never rejects. */
  async #partOf(
    key: Buffer,
    [id, address, path]: readonly [id: string, address: string, path: string],
    signal: AbortSignal,
  ): Promise<Said> {
    const [time, nonce] = [String(this.#nowMs()), randomBytes(12).toString('base64url')]
    const proof = proofOf(key, 'question', id, address, path, time, nonce)
    const headers = { [FIELD]: `${time} ${nonce} ${proof}` }
    const isSafe = address.startsWith('https:')
    // One after the other: each takes one of the few threads that look up backends, too, and may hold it for long.
    const lookup: LookupFunction = (name, how, done) => {
      const look = (over: (done: void) => void): void =>
        lookUpName(name, how, (...found) => over(done(...found)))
      this.#lookedUp = this.#lookedUp.then(() => (signal.aborted ? undefined : new Promise(look)))
    }
    // Neither a redirect nor a proxy of the environment is followed.
    const options = { ...(isSafe && this.#tls), path, agent: false, headers, signal, lookup }
    try {
      const request = isSafe ? (await import('node:https')).request : requestHttp
      const asked = request(address, options).end()
      // Errors after the head belong to the answer. A gateway sends no 1xx; who does might never stop.
      asked.on('error', () => undefined)
      asked.once('information', () => asked.destroy(new Error('1xx')))
      const [answer] = (await once(asked, 'response', { signal })) as [IncomingMessage]
      if (Number(answer.headers['content-length'] ?? Infinity) > ANSWER_BYTES) answer.destroy()
      const body = await text(answer)
      if (!isProof(answer.headers[FIELD], key, 'answer', nonce, body))
        throw new Error(`${answer.statusCode} without a proof of the admin.token`)
      return { name: address, part: JSON.parse(body) as unknown, why: '' }
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      const cause = signal.aborted ? 'timeout' : (code ?? message)
      return { name: address, why: `${address} did not answer (${cause})` }
    }
  }
}
