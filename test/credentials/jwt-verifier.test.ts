import { createHmac, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK, exportSPKI, generateKeyPair, SignJWT, type JWK } from 'jose'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createClients } from '../support/clients.ts'
import { createJwtVerifier, type JwtVerifier } from '../../src/credentials/jwt-verifier.ts'
import { createTokenCallers } from '../../src/credentials/token-callers.ts'
import type { JwtConfig } from '../../src/config/config.ts'
import type { Caller } from '../../src/rules/credentials.ts'
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
const callers = createTokenCallers({ clients: createClients([acme]), plans, isStructured: true })
const watch = () => ({ keySetFetched: vi.fn(), unavailable: vi.fn() })
const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

async function open(
  keys: JWK[],
  { config = {}, timing = {} }: { config?: Partial<JwtConfig>; timing?: object } = {},
) {
  const server = await startKeyServer(keys)
  const observer = watch()
  const verifier = createJwtVerifier(
    {
      issuer,
      audience,
      jwksUri: server.url,
      jwksFile: undefined,
      algorithms: ['RS256', 'ES256'],
      clientClaim: 'sub',
      planClaim: 'plan',
      ...config,
    },
    { observer, timing },
  )
  stops.push(() => verifier.close(), server.stop)
  await verifier.ready()
  return { server, verifier, observer }
}

/** undefined: refused as invalid. */
const clientOf = async (verifier: JwtVerifier, token: string, atMs = nowMs) => {
  const verdict = await verifier.verify(token, atMs, callers)
  if (!isRefusal(verdict)) return verdict.clientId
  return verdict.code === 'invalid_api_key' ? undefined : verdict.code
}

describe('a token verifier', () => {
  it('turns a good token into a caller on the plan of its claim', async () => {
    const { verifier } = await open([await publicJwk(rsa, 'rsa-1')])
    expect(await verifier.verify(await sign(), nowMs, callers)).toEqual({
      clientId: 'app-1',
      plan: 'pro',
      keyId: 'jwt:app-1',
      limits: { perMinute: 300, perDay: 10_000 },
      concurrent: 32,
      expiresAtMs: nowMs + 60_000,
      keyDigest: undefined,
      policy: '"minute";q=300;w=60, "day";q=10000;w=86400',
    })
  })

  it('gives a configured client the plan and limits of the configuration, whatever the token says', async () => {
    const { verifier } = await open([await publicJwk(rsa, 'rsa-1')])
    const token = await sign({ claims: { sub: 'acme', plan: 'pro' } })
    expect(await verifier.verify(token, nowMs, callers)).toMatchObject({
      clientId: 'acme',
      plan: 'enterprise',
      keyId: 'jwt:acme',
      limits: acme.limits,
      concurrent: acme.concurrent,
    })
  })

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
    const { verifier, server } = await open([await publicJwk(rsa, 'rsa-1')])
    const token = await sign()
    const caller = await verifier.verify(token, nowMs, callers)
    expect(verifier.verify(token, nowMs + 59_999, callers)).toBe(caller)
    expect(verifier.verify(token, nowMs + 60_000, callers)).toMatchObject({
      code: 'invalid_api_key',
    })
    expect(server.hits).toBe(1)
  })

  it('gives a token seen before, and one that is being checked, the limits of the configuration that asks', async () => {
    const { verifier, server } = await open([await publicJwk(rsa, 'rsa-1')])
    const limits = { perMinute: 9, perDay: 90 }
    const lowered = new Map([['pro', { name: 'pro', limits, concurrent: 1 }]])
    const others = createTokenCallers({
      clients: createClients([]),
      plans: lowered,
      isStructured: true,
    })
    const none = createTokenCallers({
      clients: createClients([]),
      plans: new Map(),
      isStructured: true,
    })
    const token = await sign()
    const asked = [callers, others, none].map((by) => verifier.verify(token, nowMs, by))
    const expected = [{ limits: { perMinute: 300 } }, { limits }, { code: 'invalid_api_key' }]
    expect(await Promise.all(asked.map((verdict) => Promise.resolve(verdict)))).toMatchObject(
      expected,
    )
    expect([callers, others, none].map((by) => verifier.verify(token, nowMs, by))).toMatchObject(
      expected,
    )
    expect(server.hits).toBe(1)
  })

  it('checks a token once for all requests that bring it at the same time', async () => {
    const { verifier } = await open([await publicJwk(rsa, 'rsa-1')])
    const token = await sign()
    const first = verifier.verify(token, nowMs, callers)
    const second = verifier.verify(token, nowMs, callers)
    expect(((await first) as Caller).clientId).toBe('app-1')
    expect(await second).toBe(await first)
  })

  it.each<[string, TokenParts]>([
    ['a wrong issuer', { claims: { iss: 'https://id.example' } }],
    ['no issuer', { claims: { iss: undefined } }],
    ['an issuer that is a list', { claims: { iss: [issuer] } }],
    ['a wrong audience', { claims: { aud: 'animal-stores' } }],
    ['no audience', { claims: { aud: undefined } }],
    ['an expiry that is now', { claims: { exp: nowSeconds } }],
    ['no expiry', { claims: { exp: undefined } }],
    ['an expiry that is text', { claims: { exp: String(nowSeconds + 60) } }],
    ['a start in the next second', { claims: { nbf: nowSeconds + 1 } }],
    ['a start that is text', { claims: { nbf: '0' } }],
    ['no client', { claims: { sub: undefined } }],
    ['a client that is a number', { claims: { sub: 7 } }],
    ['an empty client', { claims: { sub: '' } }],
    ['a client with a line break', { claims: { sub: 'app\r\nX-Client-Plan: pro' } }],
    ['a client that is not ASCII', { claims: { sub: '\u00e4pp' } }],
    ['a client of 129 characters', { claims: { sub: 'a'.repeat(129) } }],
    ['no plan', { claims: { plan: undefined } }],
    ['an unknown plan', { claims: { plan: 'gold' } }],
    ['a plan named after a property of objects', { claims: { plan: 'constructor' } }],
    ['a custom plan without a configured client', { claims: { plan: 'enterprise' } }],
    ['an unknown critical extension', { header: { crit: ['x'], x: 1 } }],
    ['a key id that is not text', { header: { kid: 7 } }],
  ])('refuses %s', async (_, parts) => {
    const { verifier } = await open([await publicJwk(rsa, 'rsa-1')])
    // SignJWT refuses to make some of these, so the parts are signed by hand.
    const token = await signRaw(
      { alg: 'RS256', kid: 'rsa-1', ...parts.header },
      { ...goodClaims(), ...parts.claims },
    )
    expect(await clientOf(verifier, token)).toBeUndefined()
    expect(
      await clientOf(verifier, await signRaw({ alg: 'RS256', kid: 'rsa-1' }, goodClaims())),
    ).toBe('app-1')
  })

  it('refuses a signature of another key, of another algorithm, of none, and of the public key as a shared secret', async () => {
    const { verifier } = await open([await publicJwk(rsa, 'rsa-1')])
    const unsigned = `${part({ alg: 'none', kid: 'rsa-1' })}.${part(goodClaims())}`
    const pem = await exportSPKI(rsa.publicKey)
    const forged = `${part({ alg: 'HS256', kid: 'rsa-1' })}.${part(goodClaims())}`
    const [header, , signature] = (await sign()).split('.')
    const tokens = [
      await sign({ key: stranger }),
      await sign({ alg: 'PS256', key: await generateKeyPair('PS256') }),
      `${unsigned}.`,
      `${unsigned}.AAAA`,
      `${forged}.${createHmac('sha256', pem).update(forged).digest('base64url')}`,
      `${header}.${part({ ...goodClaims(), sub: 'acme' })}.${signature}`,
    ]
    for (const token of tokens) expect(await clientOf(verifier, token)).toBeUndefined()
  })

  it('refuses every other spelling of a good token, also once the token itself is remembered', async () => {
    const { verifier } = await open([await publicJwk(rsa, 'rsa-1')])
    const token = await sign()
    const [header = '', claims = '', signature = ''] = token.split('.')
    expect(await clientOf(verifier, token)).toBe('app-1')
    const otherBits = signature.slice(0, -1) + nextCharacter(signature.at(-1) ?? 'A')
    const spellings = [
      `${token}=`,
      `${token}==`,
      `${token}\n`,
      ` ${token}`,
      `${token} `,
      `${header}.${claims}.${signature.slice(0, 10)}\n${signature.slice(10)}`,
      `${header}.${claims} .${signature}`,
      `${header}=.${claims}.${signature}`,
      `${header}.${claims}.${otherBits}`,
      `${token}.`,
      `${header}..${signature}`,
    ]
    for (const spelling of spellings) expect(await clientOf(verifier, spelling)).toBeUndefined()
  })

  it('believes no key that the token brings along or points to', async () => {
    const { verifier } = await open([await publicJwk(rsa, 'rsa-1')])
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
      expect(() =>
        createJwtVerifier(
          {
            issuer,
            audience,
            jwksUri: 'http://127.0.0.1:1/',
            jwksFile: undefined,
            algorithms: [name],
            clientClaim: 'sub',
            planClaim: 'plan',
          },
          { observer: watch() },
        ),
      ).toThrow('jwt.algorithms')
  })
})

describe('a key set from an address', () => {
  it('is fetched again when a token names a new key, so that rotation needs no restart', async () => {
    const { verifier, server } = await open([await publicJwk(rsa, 'rsa-1')])
    server.keys = [await publicJwk(ec, 'ec-2')]
    const token = await sign({ key: ec, alg: 'ES256', header: { kid: 'ec-2' } })
    expect(await clientOf(verifier, token)).toBe('app-1')
    expect(server.hits).toBe(2)
  })

  it('is not believed any more for tokens of a key it has dropped, remembered ones included', async () => {
    const { verifier, server } = await open([await publicJwk(rsa, 'rsa-1')])
    const old = await sign()
    expect(await clientOf(verifier, old)).toBe('app-1')
    server.keys = [await publicJwk(ec, 'ec-2')]
    await clientOf(verifier, await sign({ key: ec, alg: 'ES256', header: { kid: 'ec-2' } }))
    expect(await clientOf(verifier, old)).toBeUndefined()
  })

  it('is fetched at most once in 30 s for made-up key ids, and once for many at a time', async () => {
    const { verifier, server } = await open([await publicJwk(rsa, 'rsa-1')])
    const unknown = () => sign({ header: { kid: randomUUID() } })
    const flood = await Promise.all(Array.from({ length: 100 }, unknown))
    await Promise.all(flood.map((token) => clientOf(verifier, token)))
    expect(server.hits).toBe(2)
    expect(await clientOf(verifier, await unknown(), nowMs + 29_999)).toBeUndefined()
    expect(server.hits).toBe(2)
    expect(await clientOf(verifier, await unknown(), nowMs + 30_000)).toBeUndefined()
    expect(server.hits).toBe(3)
    expect(await clientOf(verifier, await sign())).toBe('app-1')
  })

  it('is not fetched for a token that would be refused anyway', async () => {
    const { verifier, server } = await open([await publicJwk(rsa, 'rsa-1')])
    const token = await sign({ header: { kid: 'new' }, claims: { aud: 'other' } })
    expect(verifier.verify(token, nowMs, callers)).toMatchObject({ code: 'invalid_api_key' })
    expect(server.hits).toBe(1)
  })

  it('stays in use when the address is down, broken, redirecting, too large or empty', async () => {
    const { verifier, server, observer } = await open([await publicJwk(rsa, 'rsa-1')])
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
    let atMs = nowMs
    for (const [index, fault] of faults.entries()) {
      server.respond = fault
      atMs += 31_000
      const claims = { exp: nowSeconds + 3600 }
      const unknown = await sign({ key: stranger, header: { kid: 'rsa-9' }, claims })
      expect(await clientOf(verifier, unknown, atMs)).toBeUndefined()
      // The first was good.
      expect(observer.keySetFetched).toHaveBeenCalledTimes(index + 2)
      expect(observer.keySetFetched).toHaveBeenLastCalledWith({
        cause: expect.any(String),
        hasKeys: true,
      })
      expect(await clientOf(verifier, await sign({ claims }), atMs)).toBe('app-1')
    }
    expect(elsewhere.hits).toBe(0)
  })

  it('does not hold a token for longer than its time-out when the address is silent', async () => {
    const timing = { timeoutMs: 100 }
    const { verifier, server, observer } = await open([await publicJwk(rsa, 'rsa-1')], { timing })
    // A head without an end: the time-out must cover the body too.
    server.respond = (_, response) => void response.write('{')
    const token = await sign({ header: { kid: 'new' } })
    expect(await clientOf(verifier, token)).toBeUndefined()
    expect(observer.keySetFetched).toHaveBeenLastCalledWith({
      cause: expect.stringContaining('no answer in time'),
      hasKeys: true,
    })
    expect(await clientOf(verifier, await sign())).toBe('app-1')
  })

  it('lets no more than 64 tokens wait for one fetch, and says of the others at once that it cannot tell', async () => {
    const { verifier, server, observer } = await open([await publicJwk(rsa, 'rsa-1')])
    const held: ServerResponse[] = []
    server.respond = (_, response) => void held.push(response)
    const unknown = () => sign({ header: { kid: randomUUID() } })
    const tokens = await Promise.all(Array.from({ length: 70 }, unknown))
    let answered = 0
    const verdicts = tokens.map((token) => clientOf(verifier, token).finally(() => answered++))
    await vi.waitFor(() => expect(held).toHaveLength(1), 20_000)
    expect(answered).toBe(6)
    held[0]?.end('{}')
    const outcomes = await Promise.all(verdicts)
    expect(outcomes.filter((outcome) => outcome === undefined)).toHaveLength(64)
    expect(outcomes.filter((outcome) => outcome === 'service_unavailable')).toHaveLength(6)
    expect(observer.unavailable.mock.calls.map(String)).toEqual(Array(6).fill('busy'))
  })

  it('that cannot be had at the start leaves tokens undecided, and is tried again until it can', async () => {
    const server = await startKeyServer([await publicJwk(rsa, 'rsa-1')])
    const respond = server.respond
    server.respond = (_, response) => void response.writeHead(503).end()
    const observer = watch()
    const verifier = createJwtVerifier(
      {
        issuer,
        audience,
        jwksUri: server.url,
        jwksFile: undefined,
        algorithms: ['RS256'],
        clientClaim: 'sub',
        planClaim: 'plan',
      },
      { observer, timing: { retryMs: 10 } },
    )
    stops.push(() => verifier.close(), server.stop)
    await verifier.ready()
    expect(await clientOf(verifier, await sign())).toBe('service_unavailable')
    // What is wrong with it whoever signed it, needs no key.
    expect(await clientOf(verifier, await sign({ claims: { aud: 'other' } }))).toBeUndefined()
    expect(observer.unavailable).toHaveBeenCalledWith('no_key_set')
    expect(observer.keySetFetched).toHaveBeenCalledWith({ cause: 'status 503', hasKeys: false })
    server.respond = respond
    await vi.waitFor(
      () => expect(observer.keySetFetched).toHaveBeenLastCalledWith(undefined),
      20_000,
    )
    expect(await clientOf(verifier, await sign())).toBe('app-1')
  })

  it('is fetched again in the background', async () => {
    const timing = { refreshMs: 20 }
    const { verifier, server } = await open([await publicJwk(rsa, 'rsa-1')], { timing })
    await vi.waitFor(() => expect(server.hits).toBeGreaterThan(3), 20_000)
    expect(await clientOf(verifier, await sign())).toBe('app-1')
  })
})

describe('a verifier that is full', () => {
  it('says that it cannot tell, of the tokens beyond 8 under way and 1,024 in line', async () => {
    const { verifier, observer } = await open([await publicJwk(ec, 'ec-1')])
    const one = () => sign({ key: ec, alg: 'ES256', header: { kid: 'ec-1' } })
    const tokens = await Promise.all(Array.from({ length: 1_040 }, one))
    const outcomes = await Promise.all(tokens.map((token) => clientOf(verifier, token)))
    expect(outcomes.filter((outcome) => outcome === 'app-1')).toHaveLength(1_032)
    expect(outcomes.filter((outcome) => outcome === 'service_unavailable')).toHaveLength(8)
    expect(observer.unavailable.mock.calls.map(String)).toEqual(Array(8).fill('busy'))
    expect(await clientOf(verifier, tokens[1_039] ?? '')).toBe('app-1')
  })
})

describe('a key set from a file', () => {
  const directory = mkdtempSync(join(tmpdir(), 'tollgate-jwks-'))
  afterAll(() => rmSync(directory, { recursive: true }))
  const fromFile = (jwksFile: string) =>
    createJwtVerifier(
      {
        issuer,
        audience,
        jwksUri: undefined,
        jwksFile,
        algorithms: ['RS256'],
        clientClaim: 'sub',
        planClaim: 'plan',
      },
      { observer: watch() },
    )

  it('proves tokens without any address', async () => {
    const file = join(directory, 'good.json')
    writeFileSync(file, JSON.stringify({ keys: [await publicJwk(rsa, 'rsa-1')] }))
    const verifier = fromFile(file)
    await verifier.ready()
    expect(await clientOf(verifier, await sign())).toBe('app-1')
    expect(await clientOf(verifier, await sign({ header: { kid: 'new' } }))).toBeUndefined()
  })

  it('that is missing or no key set is named in the error, without its text', () => {
    const file = join(directory, 'bad.json')
    writeFileSync(file, 'secret text')
    expect(() => fromFile(file)).toThrow(`jwt.jwksFile ${file}: not JSON`)
    expect(() => fromFile(join(directory, 'none.json'))).toThrow('ENOENT')
  })
})

function part(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

async function signRaw(header: object, claims: object): Promise<string> {
  const text = `${part(header)}.${part(claims)}`
  const bytes = new TextEncoder().encode(text)
  const signature = await crypto.subtle.sign('RSASSA-PKCS1-v1_5', rsa.privateKey, bytes)
  return `${text}.${Buffer.from(signature).toString('base64url')}`
}

/** The character with the same leading bits: the 256 bytes of an RS256 signature leave the last four bits unused. */
function nextCharacter(character: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  return alphabet[alphabet.indexOf(character) + 1] ?? 'B'
}
