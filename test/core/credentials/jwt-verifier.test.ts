import { createHmac, randomBytes, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { exportJWK, exportSPKI, generateKeyPair, SignJWT, type JWK } from 'jose'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { createClients } from '../../support/clients.ts'
import { listening } from '../../support/listening.ts'
import { temporaryFile } from '../../support/processes.ts'
import { readBlocks } from '../../support/serving.ts'
import { JwtVerifier } from '../../../src/core/credentials/jwt-verifier.ts'
import { createTokenCallers, type TokenPolicy } from '../../../src/core/credentials/callers.ts'
import type { JwtConfig } from '../../../src/config/config.ts'
import { isRefusal } from '../../../src/core/rules/refusals.ts'

const issuer = 'https://id.example/'
const audience = 'animal-store'
const nowMs = 1_790_000_000_000
const nowSeconds = nowMs / 1000

type Pair = Awaited<ReturnType<typeof generateKeyPair>>
const [rsa, ec, stranger] = (await Promise.all(
  ['RS256', 'ES256', 'RS256'].map((alg) => generateKeyPair(alg, { extractable: true })),
)) as [Pair, Pair, Pair]

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
  return Object.assign(state, { url: `http://127.0.0.1:${await listening(server)}/jwks.json` })
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
const by = (callerOf: TokenPolicy['callerOf'], isOverLimit = false): TokenPolicy => ({
  callerOf,
  isOverLimit: () => isOverLimit,
})
const callers = by(createTokenCallers({ clients: createClients([acme]), plans }, true))
const [home, elsewhere] = ['192.0.2.1', '192.0.2.2']
const watch = () => ({ keySetFetched: vi.fn(), unavailable: vi.fn() })
/** A machine that is busy may hold up any fetch for longer than the verifier waits. */
const PATIENT_MS = 60_000
const fetchedBy = ({ keySetFetched }: ReturnType<typeof watch>) =>
  vi.waitFor(() => expect(keySetFetched).toHaveBeenLastCalledWith(undefined), 20_000)
/** As a token may well come in the second in which the first set was fetched. */
const quick = { renewMs: 0 }
const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

const createVerifier = (
  config: Partial<JwtConfig>,
  ...options: [observer?: ReturnType<typeof watch>, timing?: object]
) =>
  new JwtVerifier(
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
    options[0] ?? watch(),
    options[1],
  )

async function open(
  keys: JWK[],
  { config = {}, timing = {} }: { config?: Partial<JwtConfig>; timing?: object } = {},
) {
  const server = await startKeyServer(keys)
  const observer = watch()
  const verifier = createVerifier({ jwksUri: server.url, ...config }, observer, {
    timeoutMs: PATIENT_MS,
    ...timing,
  })
  stops.push(() => verifier.close())
  // Where a test has it wait less, the first fetch may need another try.
  await fetchedBy(observer)
  return { server, verifier, observer }
}

const openWithRsa = async (more?: Parameters<typeof open>[1]) =>
  open([await publicJwk(rsa, 'rsa-1')], more)

const callerOf = async (verifier: JwtVerifier, token: string, policy = callers) => {
  const verdict = await verifier.verify(token, nowMs, policy, home)
  return isRefusal(verdict) ? verdict : policy.callerOf(verdict)
}

/** undefined: refused as invalid. */
const clientOf = async (verifier: JwtVerifier, token: string, address = home, policy = callers) => {
  const verdict = await verifier.verify(token, nowMs, policy, address)
  if (!isRefusal(verdict)) return verdict.clientId
  return verdict.code === 'invalid_api_key' ? undefined : verdict.code
}

describe('a token verifier', () => {
  it('turns a good token into a caller on the plan of its claim', async () => {
    const { verifier } = await openWithRsa()
    expect(await callerOf(verifier, await sign())).toEqual({
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
    const { verifier } = await openWithRsa()
    const token = await sign({ claims: { sub: 'acme', plan: 'pro' } })
    expect(await callerOf(verifier, token)).toMatchObject({
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
      by(createTokenCallers({ clients: createClients([]), plans: known }, true)),
    ) as [TokenPolicy, TokenPolicy]
    const token = await sign()
    const ask = () =>
      Promise.all([callers, others, none].map((policy) => callerOf(verifier, token, policy)))
    const expected = [{ limits: { perMinute: 300 } }, { limits }, undefined]
    expect(await ask()).toMatchObject(expected)
    expect(await ask()).toMatchObject(expected)
    expect(await callerOf(verifier, await sign(), none)).toMatchObject({ code: 'invalid_api_key' })
    expect(server.hits).toBe(1)
  })

  it('checks a token once for all requests that bring it at the same time', async () => {
    const { verifier } = await openWithRsa()
    const token = await sign()
    const first = verifier.verify(token, nowMs, callers, home)
    const second = verifier.verify(token, nowMs, callers, home)
    expect(await first).toMatchObject({ clientId: 'app-1' })
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
    ['a client that no path can end in', { claims: { sub: '.' } }],
    ['another client that no path can end in', { claims: { sub: '..' } }],
    ['a client that is not ASCII', { claims: { sub: '\u00e4pp' } }],
    ['a client of 129 characters', { claims: { sub: 'a'.repeat(129) } }],
    ['no plan', { claims: { plan: undefined } }],
    ['an unknown plan', { claims: { plan: 'gold' } }],
    ['a plan named after a property of objects', { claims: { plan: 'constructor' } }],
    ['a custom plan without a configured client', { claims: { plan: 'enterprise' } }],
    ['an unknown critical extension', { header: { crit: ['x'], x: 1 } }],
    ['a key id that is not text', { header: { kid: 7 } }],
  ])('refuses %s', async (_, parts) => {
    const { verifier } = await openWithRsa()
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
    const { verifier } = await openWithRsa()
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
    const { verifier } = await openWithRsa()
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
    const { verifier } = await openWithRsa({ timing: quick })
    const other = await startKeyServer([await publicJwk(stranger, 'rsa-1')])
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

  it('can be configured with no shared-secret algorithm, and not with "none"', () => {
    const jwt = `jwt: { issuer: a, audience: b, jwksUri: 'http://127.0.0.1:1/', algorithms: `
    const configured = (name: string) => () =>
      readBlocks(['http://127.0.0.1:1'], { jwt: `${jwt}["${name}"] }` })
    expect(configured('RS256')).not.toThrow()
    for (const name of ['HS256', 'none', 'rs256', 'RS256 '])
      expect(configured(name)).toThrow('1 problem')
  })
})

describe('a key set from an address', () => {
  it('is fetched again when a token names a new key, so that rotation needs no restart', async () => {
    const { verifier, server } = await openWithRsa({ timing: quick })
    server.keys = [await publicJwk(ec, 'ec-2')]
    const token = await sign({ key: ec, alg: 'ES256', header: { kid: 'ec-2' } })
    expect(await clientOf(verifier, token)).toBe('app-1')
    expect(server.hits).toBe(2)
  })

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

  it('is fetched once for many made-up key ids, and again as long as they come, at most once in renewMs', async () => {
    const timing = { renewMs: 40 }
    const { verifier, server } = await openWithRsa({ timing })
    const beganMs = performance.now()
    let asked = 0
    while (server.hits < 6) {
      const flood = Array.from({ length: 20 }, () => forge({ kid: randomUUID() }))
      await Promise.all(flood.map((token) => clientOf(verifier, token)))
      asked += flood.length
    }
    expect(asked).toBeGreaterThan(server.hits * 10)
    // The first was for no token.
    expect(server.hits - 2).toBeLessThanOrEqual((performance.now() - beganMs) / timing.renewMs)
    expect(await clientOf(verifier, await sign())).toBe('app-1')
  })

  it('is waited for by tokens of a new key that come soon behind a fetch which a made-up one has caused', async () => {
    const { verifier, server } = await openWithRsa()
    expect(await clientOf(verifier, forge({ kid: randomUUID() }))).toBeUndefined()
    server.keys = [await publicJwk(ec, 'ec-2')]
    const token = await sign({ key: ec, alg: 'ES256', header: { kid: 'ec-2' } })
    const beganMs = performance.now()
    expect([await clientOf(verifier, token), server.hits]).toEqual(['app-1', 3])
    // A second, and what a busy machine takes for the fetch.
    expect(performance.now() - beganMs).toBeLessThan(10_000)
  })

  it('has a new key with the next fetch beside a flood of made-up key ids of the same and of other addresses, and no token of that key is called invalid meanwhile', async () => {
    const timing = { renewMs: 200 }
    const { verifier, server } = await openWithRsa({ timing })
    const flooding = { isOver: false }
    const flood = (async () => {
      for (let nth = 0; !flooding.isOver; nth++) {
        for (const address of [home, `198.51.100.${nth % 250}`])
          void clientOf(verifier, forge({ kid: randomUUID() }), address)
        await sleep(1)
      }
    })()
    await vi.waitFor(() => expect(server.hits).toBeGreaterThan(2), 20_000)
    server.keys = [await publicJwk(ec, 'ec-2')]
    const [hits, sinceMs] = [server.hits, performance.now()]
    const verdicts: (string | undefined)[] = []
    while (verdicts.at(-1) !== 'app-1' && verdicts.length < 10_000) {
      const token = await sign({ key: ec, alg: 'ES256', header: { kid: 'ec-2' } })
      verdicts.push(await clientOf(verifier, token))
      await sleep(1)
    }
    const tookMs = performance.now() - sinceMs
    flooding.isOver = true
    await flood
    expect(new Set(verdicts.slice(0, -1))).toEqual(
      new Set(verdicts.length > 1 ? ['service_unavailable'] : []),
    )
    expect(verdicts.at(-1)).toBe('app-1')
    // One may have been under way as the keys changed.
    expect(server.hits - hits).toBeLessThanOrEqual(2 + tookMs / timing.renewMs)
  })

  it('refuses a token for its key only when it was fetched after the token came', async () => {
    const { verifier, server, observer } = await openWithRsa({ timing: quick })
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
      await fetchedBy(observer)
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

  it('that cannot be had at the start leaves tokens undecided, and is tried again until it can', async () => {
    const server = await startKeyServer([await publicJwk(rsa, 'rsa-1')])
    const respond = server.respond
    server.respond = (_, response) => void response.writeHead(503).end()
    const observer = watch()
    const timing = { retryMs: 10, timeoutMs: PATIENT_MS }
    const verifier = createVerifier({ jwksUri: server.url }, observer, timing)
    stops.push(() => verifier.close())
    await verifier.ready
    expect(await clientOf(verifier, await sign())).toBe('service_unavailable')
    // What is wrong with it whoever signed it, needs no key.
    expect(await clientOf(verifier, await sign({ claims: { aud: 'other' } }))).toBeUndefined()
    expect(observer.unavailable).toHaveBeenCalledWith('no_key_set')
    expect(observer.keySetFetched).toHaveBeenCalledWith({ cause: 'status 503', hasKeys: false })
    server.respond = respond
    await fetchedBy(observer)
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
    const flood = Array.from({ length: 300 }, () =>
      clientOf(verifier, forge({ alg: 'ES256', kid: 'ec-1' }), home),
    )
    expect(await clientOf(verifier, fresh, elsewhere)).toBe('app-1')
    await Promise.all(flood)
    expect([checks.of.length, checks.mostAtOnce]).toEqual([301, 2])
    // In the order in which they begin: how long one takes is up to the machine.
    expect(checks.of.slice(0, 10)).toContain(fresh.split('.')[2])
  })

  it('are of 1,026 tokens at most, of the others it says that it cannot tell, those of the longest line first', async () => {
    const { verifier, observer } = await open([await publicJwk(ec, 'ec-1')])
    const one = () => sign({ key: ec, alg: 'ES256', header: { kid: 'ec-1' } })
    const tokens = await Promise.all(Array.from({ length: 1_040 }, one))
    const last = await one()
    const asked = tokens.map((token) => clientOf(verifier, token))
    // They are all in line by then, and no check has ended: to sign another token would give some the time to.
    await new Promise<void>((resolve) => process.nextTick(resolve))
    expect(await clientOf(verifier, last, elsewhere)).toBe('app-1')
    const outcomes = await Promise.all(asked)
    expect(outcomes.filter((outcome) => outcome === 'service_unavailable')).toHaveLength(15)
    expect(outcomes.filter((outcome) => outcome === 'app-1')).toHaveLength(1_025)
    expect(observer.unavailable.mock.calls.map(String)).toEqual(Array(15).fill('busy'))
    expect(await clientOf(verifier, tokens[1_039] ?? '')).toBe('app-1')
  })

  it('are few for an address over its limit that sends forged ones, which harms no other and no token seen before', async () => {
    const { verifier } = await open([await publicJwk(ec, 'ec-1')])
    const fresh = (claims = {}) => sign({ key: ec, alg: 'ES256', header: { kid: 'ec-1' }, claims })
    const seen = await fresh()
    expect(await clientOf(verifier, seen)).toBe('app-1')
    expect(await clientOf(verifier, await fresh({ sub: 'neighbour' }))).toBe('neighbour')
    const over = by(callers.callerOf, true)
    const checks = watchChecks()
    // However long the checks take: with each second there is room for more. A clock never goes back.
    const clock = vi.spyOn(performance, 'now').mockReturnValue(Math.ceil(performance.now()))
    const outcomes = await Promise.all(
      Array.from({ length: 1_000 }, () =>
        clientOf(verifier, forge({ alg: 'ES256', kid: 'ec-1' }), home, over),
      ),
    )
    clock.mockRestore()
    expect(checks.of).toHaveLength(100)
    expect(outcomes.filter((outcome) => outcome === undefined)).toHaveLength(100)
    const unchecked = outcomes.filter((outcome) => outcome === 'service_unavailable')
    expect(unchecked).toHaveLength(900)
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

describe('a key set from a file', () => {
  const fromFile = (jwksFile: string) => createVerifier({ jwksFile })

  it('proves tokens without any address', async () => {
    const keys = [await publicJwk(rsa, 'rsa-1')]
    const verifier = fromFile(temporaryFile('good.json', JSON.stringify({ keys })))
    await verifier.ready
    expect(await clientOf(verifier, await sign())).toBe('app-1')
    expect(await clientOf(verifier, await sign({ header: { kid: 'new' } }))).toBeUndefined()
  })

  it('that is missing or no key set is named in the error, without its text', () => {
    const file = temporaryFile('bad.json', 'secret text')
    expect(() => fromFile(file)).toThrow(`jwt.jwksFile ${file}: not JSON`)
    expect(() => fromFile(`${file}.none`)).toThrow('ENOENT')
  })
})

/** A token that no key has signed, for nothing but a check: random bytes that could be a signature. */
function forge({ alg = 'RS256', kid }: { alg?: string; kid: string }): string {
  const signature = randomBytes(alg === 'ES256' ? 64 : 256)
  return `${part({ alg, kid })}.${part({ ...goodClaims(), sub: 'nobody' })}.${signature.toString('base64url')}`
}

/** The signatures that are checked from now on, in order. */
function watchChecks() {
  const seen = { of: [] as string[], mostAtOnce: 0 }
  let underway = 0
  const { subtle } = crypto
  const verify = subtle.verify.bind(subtle)
  const spy = vi.spyOn(subtle, 'verify').mockImplementation(async (...args) => {
    seen.of.push(Buffer.from(args[2] as Uint8Array).toString('base64url'))
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
