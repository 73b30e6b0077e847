import { createHmac, randomBytes, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { exportJWK, exportSPKI, generateKeyPair, SignJWT, type JWK } from 'jose'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createClients } from '../support/clients.ts'
import { createJwtVerifier, type JwtVerifier } from '../../src/credentials/jwt-verifier.ts'
import {
  createTokenCallers,
  type CallerOf,
  type TokenPolicy,
} from '../../src/credentials/token-callers.ts'
import type { JwtConfig } from '../../src/config/config.ts'
import { isRefusal } from '../../src/rules/refusals.ts'

const issuer = 'https://id.example/'
const audience = 'animal-store'
const nowMs = 1_790_000_000_000
const nowSeconds = nowMs / 1000

type Pair = Awaited<ReturnType<typeof generateKeyPair>>
let rsa: Pair
let ec: Pair
let stranger: Pair

beforeAll(async () => {
  rsa = await generateKeyPair('RS256', { extractable: true })
  ec = await generateKeyPair('ES256', { extractable: true })
  stranger = await generateKeyPair('RS256', { extractable: true })
})

const publicJwk = async (pair: Pair, kid?: string): Promise<JWK> => ({
  ...(await exportJWK(pair.publicKey)),
  ...(kid === undefined ? {} : { kid }),
})

interface TokenParts {
  claims?: Record<string, unknown>
  header?: Record<string, unknown>
  key?: Pair
  alg?: string
}

const goodClaims = () => ({
  iss: issuer,
  aud: audience,
  exp: nowSeconds + 60,
  sub: 'app-1',
  plan: 'pro',
  jti: randomUUID(),
})
function sign({ claims = {}, header = {}, key = rsa, alg = 'RS256' }: TokenParts = {}) {
  return new SignJWT({ ...goodClaims(), ...claims })
    .setProtectedHeader({ alg, kid: 'rsa-1', ...header })
    .sign(key.privateKey)
}

/** An identity provider's key set address, whose behaviour a test may change at any time. */
async function startKeyServer(keys: JWK[]) {
  const state = {
    hits: 0,
    respond: (_request: IncomingMessage, response: ServerResponse): void =>
      void response.end(JSON.stringify({ keys: state.keys })),
    keys,
  }
  const server = createServer((request, response) => {
    state.hits++
    state.respond(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return Object.assign(state, {
    url: `http://127.0.0.1:${port}/jwks.json`,
    stop: () => {
      server.closeAllConnections()
      server.close()
    },
  })
}

const acme = {
  id: 'acme',
  plan: 'enterprise',
  limits: { perMinute: 7, perDay: 70 },
  concurrent: 5,
  keys: [],
}
const plans = new Map([
  ['pro', { name: 'pro', limits: { perMinute: 300, perDay: 10_000 }, concurrent: 32 }],
  ['enterprise', { name: 'enterprise', limits: undefined, concurrent: 64 }],
])
const by = (callerOf: CallerOf, isOverLimit = false): TokenPolicy => ({
  callerOf,
  isOverLimit: () => isOverLimit,
})
const callers = by(
  createTokenCallers({ clients: createClients([acme]), plans, isStructured: true }),
)
const [home, elsewhere] = ['192.0.2.1', '192.0.2.2']
const watch = () => ({ keySetFetched: vi.fn(), unavailable: vi.fn() })
/** As a token may well come in the second in which the first set was fetched. */
const quick = { renewMs: 0 }
const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

const createVerifier = (
  config: Partial<JwtConfig>,
  options: Parameters<typeof createJwtVerifier>[1] = { observer: watch() },
) =>
  createJwtVerifier(
    {
      issuer,
      audience,
      jwksUri: undefined,
      jwksFile: undefined,
      algorithms: ['RS256', 'ES256'],
      clientClaim: 'sub',
      planClaim: 'plan',
      ...config,
    },
    options,
  )

async function open(
  keys: JWK[],
  { config = {}, timing = {} }: { config?: Partial<JwtConfig>; timing?: object } = {},
) {
  const server = await startKeyServer(keys)
  const observer = watch()
  const verifier = createVerifier({ jwksUri: server.url, ...config }, { observer, timing })
  stops.push(() => verifier.close(), server.stop)
  await verifier.ready()
  return { server, verifier, observer }
}

const openWithRsa = async (more?: Parameters<typeof open>[1]) =>
  open([await publicJwk(rsa, 'rsa-1')], more)

/** undefined: refused as invalid. */
const clientOf = async (verifier: JwtVerifier, token: string, address = home, policy = callers) => {
  const verdict = await verifier.verify(token, nowMs, policy, address)
  if (!isRefusal(verdict)) return verdict.clientId
  return verdict.code === 'invalid_api_key' ? undefined : verdict.code
}

describe('a token verifier', () => {
  it('accepts each configured algorithm, an audience among others, and a token type of any name', async () => {
    const { verifier } = await open([await publicJwk(rsa, 'rsa-1'), await publicJwk(ec, 'ec-1')])
    const tokens = [
      await sign({ key: ec, alg: 'ES256', header: { kid: 'ec-1' } }),
      await sign({ claims: { aud: ['other', audience] } }),
      await sign({ header: { typ: 'at+jwt' } }),
      await sign({ claims: { nbf: nowSeconds } }),
    ]
    for (const token of tokens) expect(await clientOf(verifier, token)).toBe('app-1')
  })

  it('answers a token seen before at once, up to its expiry to the second and not beyond', async () => {
    const { verifier, server } = await openWithRsa()
    const token = await sign()
    const caller = await verifier.verify(token, nowMs, callers, home)
    expect(verifier.verify(token, nowMs + 59_999, callers, home)).toBe(caller)
    expect(verifier.verify(token, nowMs + 60_000, callers, home)).toMatchObject({
      code: 'invalid_api_key',
    })
    expect(server.hits).toBe(1)
  })

  it('gives a token seen before, and one that is being checked, the limits of the configuration that asks', async () => {
    const { verifier, server } = await openWithRsa()
    const limits = { perMinute: 9, perDay: 90 }
    const lowered = new Map([['pro', { name: 'pro', limits, concurrent: 1 }]])
    const [others, none] = [lowered, new Map()].map((known) =>
      by(createTokenCallers({ clients: createClients([]), plans: known, isStructured: true })),
    ) as [TokenPolicy, TokenPolicy]
    const token = await sign()
    const checks = watchChecks()
    const asked = [callers, others, none].map((policy) =>
      verifier.verify(token, nowMs, policy, home),
    )
    const expected = [{ limits: { perMinute: 300 } }, { limits }, { code: 'invalid_api_key' }]
    expect(await Promise.all(asked.map((verdict) => Promise.resolve(verdict)))).toMatchObject(
      expected,
    )
    expect(
      [callers, others, none].map((policy) => verifier.verify(token, nowMs, policy, home)),
    ).toMatchObject(expected)
    expect([checks.made, server.hits]).toEqual([1, 1])
  })

  it('refuses a token of no plan, and of one named after a property of objects', async () => {
    const { verifier } = await openWithRsa()
    for (const plan of [undefined, 'constructor'])
      expect(await clientOf(verifier, await sign({ claims: { plan } }))).toBeUndefined()
    expect(await clientOf(verifier, await sign())).toBe('app-1')
  })

  it('refuses a signature of another algorithm, and of the public key as a shared secret', async () => {
    const { verifier } = await openWithRsa()
    const pem = await exportSPKI(rsa.publicKey)
    const forged = `${part({ alg: 'HS256', kid: 'rsa-1' })}.${part(goodClaims())}`
    const tokens = [
      await sign({ alg: 'PS256', key: await generateKeyPair('PS256') }),
      `${forged}.${createHmac('sha256', pem).update(forged).digest('base64url')}`,
    ]
    for (const token of tokens) expect(await clientOf(verifier, token)).toBeUndefined()
  })

  it('believes no key that the token brings along or points to', async () => {
    const { verifier } = await openWithRsa({ timing: quick })
    const other = await startKeyServer([await publicJwk(stranger, 'rsa-1')])
    stops.push(other.stop)
    for (const header of [
      { jwk: await publicJwk(stranger) },
      { jku: other.url },
      { x5u: other.url },
      { jku: other.url, kid: 'elsewhere' },
    ])
      expect(await clientOf(verifier, await sign({ key: stranger, header }))).toBeUndefined()
    expect(other.hits).toBe(0)
  })

  it('tries the keys of the set for a token that names none', async () => {
    const second = await generateKeyPair('RS256', { extractable: true })
    const { verifier } = await open([await publicJwk(rsa, 'a'), await publicJwk(second, 'b')])
    for (const key of [rsa, second])
      expect(await clientOf(verifier, await sign({ key, header: { kid: undefined } }))).toBe(
        'app-1',
      )
    expect(
      await clientOf(verifier, await sign({ key: stranger, header: { kid: undefined } })),
    ).toBeUndefined()
  })

  it('accepts no shared-secret algorithm and no "none" in the configuration', () => {
    for (const name of ['HS256', 'none', 'rs256', 'RS256 '])
      expect(() => createVerifier({ jwksUri: 'http://127.0.0.1:1/', algorithms: [name] })).toThrow(
        'jwt.algorithms',
      )
  })
})

describe('a key set from an address', () => {
  it('is not believed any more for tokens of a key it has dropped, remembered ones included', async () => {
    const { verifier, server } = await openWithRsa({ timing: quick })
    const old = await sign()
    expect(await clientOf(verifier, old)).toBe('app-1')
    server.keys = [await publicJwk(ec, 'ec-2')]
    await clientOf(verifier, await sign({ key: ec, alg: 'ES256', header: { kid: 'ec-2' } }))
    expect(await clientOf(verifier, old)).toBeUndefined()
  })

  it('leaves tokens remembered when it only grows', async () => {
    const { verifier, server } = await openWithRsa({ timing: quick })
    const old = await sign()
    const caller = await verifier.verify(old, nowMs, callers, home)
    server.keys = [await publicJwk(ec, 'ec-2'), await publicJwk(rsa, 'rsa-1')]
    const token = await sign({ key: ec, alg: 'ES256', header: { kid: 'ec-2' } })
    expect(await clientOf(verifier, token)).toBe('app-1')
    expect(verifier.verify(old, nowMs, callers, home)).toBe(caller)
  })

  it('refuses a token for its key only when it was fetched after the token came', async () => {
    const { verifier, server, observer } = await openWithRsa({
      timing: quick,
    })
    const held: ServerResponse[] = []
    server.respond = (_, response) => void held.push(response)
    const before = clientOf(verifier, forge({ kid: 'new' }))
    await vi.waitFor(() => expect(held).toHaveLength(1), 20_000)
    const meanwhile = clientOf(verifier, forge({ kid: 'newer' }))
    held[0]?.end(JSON.stringify({ keys: server.keys }))
    expect([await before, await meanwhile]).toEqual([undefined, 'service_unavailable'])
    expect(observer.unavailable.mock.calls).toEqual([['unknown_key']])
  })

  it('is not fetched for a token that would be refused anyway', async () => {
    const { verifier, server } = await openWithRsa()
    const token = await sign({ header: { kid: 'new' }, claims: { aud: 'other' } })
    expect(verifier.verify(token, nowMs, callers, home)).toMatchObject({ code: 'invalid_api_key' })
    expect(server.hits).toBe(1)
  })

  it('stays in use when the address is down, broken, redirecting, too large or empty', async () => {
    const timing = { ...quick, retryMs: 200 }
    const { verifier, server, observer } = await openWithRsa({ timing })
    const { respond } = server
    const elsewhere = await startKeyServer([await publicJwk(stranger, 'rsa-9')])
    stops.push(elsewhere.stop)
    const faults: (typeof server.respond)[] = [
      (_, response) => void response.writeHead(500).end(),
      (_, response) => void response.writeHead(302, { location: elsewhere.url }).end(),
      (_, response) => void response.end('<html>'),
      (_, response) => void response.end('{"keys":[]}'),
      (_, response) => void response.end('{"keys":{}}'),
      (_, response) => void response.end(JSON.stringify({ keys: [], pad: 'x'.repeat(300_000) })),
      (request) => void request.socket.destroy(),
    ]
    for (const fault of faults) {
      server.respond = fault
      observer.keySetFetched.mockClear()
      const unknown = await sign({ key: stranger, header: { kid: 'rsa-9' } })
      // Nothing new is known of its key.
      expect(await clientOf(verifier, unknown)).toBe('service_unavailable')
      expect(observer.keySetFetched).toHaveBeenNthCalledWith(1, {
        cause: expect.any(String),
        hasKeys: true,
      })
      // While it fails nobody waits for it, nor makes it be asked more often.
      const another = verifier.verify(forge({ kid: 'rsa-9' }), nowMs, callers, home)
      expect(await another).toMatchObject({ code: 'service_unavailable', retryAfterSeconds: 1 })
      expect(await clientOf(verifier, await sign())).toBe('app-1')
      server.respond = respond
      await vi.waitFor(
        () => expect(observer.keySetFetched).toHaveBeenLastCalledWith(undefined),
        20_000,
      )
    }
    expect(elsewhere.hits).toBe(0)
  })

  it('does not hold a token for longer than its time-out when the address is silent', async () => {
    const timing = { ...quick, timeoutMs: 500 }
    const { verifier, server, observer } = await openWithRsa({ timing })
    // A head without an end: the time-out must cover the body too.
    server.respond = (_, response) => void response.write('{')
    const token = await sign({ header: { kid: 'new' } })
    expect(await clientOf(verifier, token)).toBe('service_unavailable')
    expect(observer.keySetFetched).toHaveBeenLastCalledWith({
      cause: expect.stringContaining('no answer in time'),
      hasKeys: true,
    })
    expect(await clientOf(verifier, await sign())).toBe('app-1')
  })

  it('lets no more than 256 tokens wait for one fetch, the longest line of an address losing its last to another address', async () => {
    const { verifier, server } = await openWithRsa({ timing: quick })
    const held: ServerResponse[] = []
    server.respond = (_, response) => void held.push(response)
    const outcomes: (string | undefined)[] = []
    const ask = async (address: string) =>
      outcomes.push(await clientOf(verifier, forge({ kid: randomUUID() }), address))
    const asked = Array.from({ length: 260 }, () => ask(home))
    asked.push(ask(elsewhere))
    await vi.waitFor(() => expect(held).toHaveLength(1), 20_000)
    expect(outcomes).toEqual(Array(5).fill('service_unavailable'))
    held[0]?.end(JSON.stringify({ keys: server.keys }))
    await Promise.all(asked)
    expect(outcomes.slice(5)).toEqual(Array(256).fill(undefined))
  })

  it('answers who waits for it when it is no longer needed', async () => {
    const { verifier } = await openWithRsa()
    const waiting = clientOf(verifier, forge({ kid: 'new' }))
    verifier.retire()
    expect(await waiting).toBe('service_unavailable')
    expect(await clientOf(verifier, await sign())).toBe('app-1')
  })

  it('is fetched again in the background', async () => {
    const timing = { refreshMs: 20 }
    const { verifier, server } = await openWithRsa({ timing })
    await vi.waitFor(() => expect(server.hits).toBeGreaterThan(3), 20_000)
    expect(await clientOf(verifier, await sign())).toBe('app-1')
  })
})

describe('the signatures that a verifier checks', () => {
  it('are two at once, and a fresh token of another address does not wait behind the forged ones of one', async () => {
    const { verifier } = await open([await publicJwk(ec, 'ec-1')])
    const fresh = await sign({ key: ec, alg: 'ES256', header: { kid: 'ec-1' } })
    const checks = watchChecks()
    let forged = 0
    const flood = Array.from({ length: 300 }, () =>
      clientOf(verifier, forge({ alg: 'ES256', kid: 'ec-1' }), home).then(() => forged++),
    )
    expect(await clientOf(verifier, fresh, elsewhere)).toBe('app-1')
    expect(forged).toBeLessThan(10)
    await Promise.all(flood)
    expect(checks).toMatchObject({ made: 301, mostAtOnce: 2 })
  })

  it('are of 1,026 tokens at most, of the others it says that it cannot tell, those of the longest line first', async () => {
    const { verifier, observer } = await open([await publicJwk(ec, 'ec-1')])
    const one = () => sign({ key: ec, alg: 'ES256', header: { kid: 'ec-1' } })
    const tokens = await Promise.all(Array.from({ length: 1_040 }, one))
    const asked = tokens.map((token) => clientOf(verifier, token))
    const last = await one()
    expect(await clientOf(verifier, last, elsewhere)).toBe('app-1')
    const outcomes = await Promise.all(asked)
    expect(outcomes.filter((outcome) => outcome === 'service_unavailable')).toHaveLength(15)
    expect(outcomes.filter((outcome) => outcome === 'app-1')).toHaveLength(1_025)
    expect(observer.unavailable.mock.calls.map(String)).toEqual(Array(15).fill('busy'))
    expect(await clientOf(verifier, tokens[1_039] ?? '')).toBe('app-1')
  })

  it('are few for an address over its limit that sends forged ones, which harms no other and no token seen before', async () => {
    const dear = await generateKeyPair('ES512', { extractable: true })
    const config = { algorithms: ['ES512'] }
    const { verifier } = await open([await publicJwk(dear, 'dear')], { config })
    const fresh = (claims = {}) =>
      sign({ key: dear, alg: 'ES512', header: { kid: 'dear' }, claims })
    const seen = await fresh()
    expect(await clientOf(verifier, seen)).toBe('app-1')
    expect(await clientOf(verifier, await fresh({ sub: 'neighbour' }))).toBe('neighbour')
    const over = by(callers.callerOf, true)
    const checks = watchChecks()
    const beganMs = performance.now()
    const outcomes = await Promise.all(
      Array.from({ length: 1_000 }, () =>
        clientOf(verifier, forge({ alg: 'ES512', kid: 'dear' }), home, over),
      ),
    )
    const mostChecks = 100 + (performance.now() - beganMs) / 10
    expect(checks.made).toBeGreaterThanOrEqual(100)
    expect(checks.made).toBeLessThanOrEqual(mostChecks)
    expect(outcomes.filter((outcome) => outcome === undefined)).toHaveLength(checks.made)
    const unchecked = outcomes.filter((outcome) => outcome === 'service_unavailable')
    expect(unchecked).toHaveLength(1_000 - checks.made)
    expect(await clientOf(verifier, seen, home, over)).toBe('app-1')
    expect(await clientOf(verifier, await fresh(), elsewhere, over)).toBe('app-1')
    // A client that has proven a token behind the address before.
    expect(await clientOf(verifier, await fresh({ sub: 'neighbour' }), home, over)).toBe(
      'neighbour',
    )
    // The same address with room left for requests without a valid credential.
    expect(await clientOf(verifier, await fresh(), home)).toBe('app-1')
  })
})

/** A token that no key has signed, for nothing but a check: random bytes that could be a signature. */
function forge({ alg = 'RS256', kid }: { alg?: string; kid: string }): string {
  const signature = randomBytes({ RS256: 256, ES256: 64, ES512: 132 }[alg] ?? 0)
  // Both numbers of an ES512 signature have 521 bits in 66 bytes; greater ones are refused without any arithmetic.
  if (alg === 'ES512') signature[0] = signature[66] = 0
  return `${part({ alg, kid })}.${part({ ...goodClaims(), sub: 'nobody' })}.${signature.toString('base64url')}`
}

/** Counts the signature checks from now on. */
function watchChecks() {
  const seen = { made: 0, mostAtOnce: 0 }
  let underway = 0
  const { subtle } = crypto
  const verify = subtle.verify.bind(subtle)
  const spy = vi.spyOn(subtle, 'verify').mockImplementation(async (...args) => {
    seen.made++
    seen.mostAtOnce = Math.max(seen.mostAtOnce, ++underway)
    const isGood = await verify(...args)
    underway--
    return isGood
  })
  stops.push(() => spy.mockRestore())
  return seen
}

function part(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
