/** Signed tokens at a running gateway, with the issuer's keys on a real HTTP server. */
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Agent, createServer, get, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey } from 'jose'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  keys,
  minuteWithAtLeast,
  sha256,
  startTestGateway,
  type TestGateway,
} from '../support/gateway.ts'
import { answer, startRawBackend, type RawBackend } from '../support/raw-backend.ts'
import { freePort } from '../support/redis-server.ts'

const issuer = 'https://id.example/'
const audience = 'animal-store'
const nowSeconds = (): number => Math.floor(Date.now() / 1000)

interface Signer {
  readonly alg: string
  readonly key: CryptoKey
  readonly jwks: string
}

async function createSigner(kid: string, alg = 'ES256'): Promise<Signer> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true })
  const jwk = { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' }
  return { key: privateKey, alg, jwks: JSON.stringify({ keys: [jwk] }) }
}

interface TokenOptions {
  readonly claims?: Record<string, unknown>
  readonly kid?: string
}

/** A token that is good for an hour unless its claims say otherwise; undefined leaves a claim out. */
const sign = (
  { key, alg }: Signer,
  { claims = {}, kid = 'first' }: TokenOptions = {},
): Promise<string> =>
  new SignJWT({
    iss: issuer,
    aud: audience,
    sub: 'token-client',
    plan: 'pro',
    exp: nowSeconds() + 3_600,
    ...claims,
  })
    .setProtectedHeader({ alg, kid })
    .sign(key)

interface KeyServer {
  readonly uri: string
  requests(): number
  /** From now on the keys are others. */
  rotate(body: string): void
  close(): Promise<void>
}

async function serveKeys(first: string, port = 0): Promise<KeyServer> {
  let requests = 0
  let body = first
  const server: Server = createServer((_, response) => {
    requests++
    response.setHeader('Content-Type', 'application/jwk-set+json').end(body)
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return {
    uri: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`,
    requests: () => requests,
    rotate: (next) => void (body = next),
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

const jwtBlocks = (uri: string): Record<string, string> => ({
  jwt: `jwt: { issuer: "${issuer}", audience: ${audience}, jwksUri: "${uri}", algorithms: [ES256] }`,
  anonymous: 'anonymous: { perMinute: 100000 }',
})

/** What the caller is told, without what differs from one request to the next by design. */
async function told(response: Response): Promise<object> {
  const { 'x-request-id': _, date: __, ...headers } = Object.fromEntries(response.headers)
  for (const name of ['x-ratelimit-remaining', 'x-ratelimit-reset', 'ratelimit'])
    delete headers[name]
  return { status: response.status, headers, body: await response.text() }
}

describe('a gateway that takes tokens', () => {
  let backend: RawBackend
  let signer: Signer
  let keyServer: KeyServer
  let gateway: TestGateway

  beforeAll(async () => {
    backend = await startRawBackend({ respond: () => answer(200, '[]') })
    signer = await createSigner('first')
    keyServer = await serveKeys(signer.jwks)
    gateway = await startTestGateway({
      upstreams: [backend.url],
      blocks: jwtBlocks(keyServer.uri),
    })
  })
  afterAll(async () => {
    await gateway.stop()
    await keyServer.close()
    await backend.close()
  })

  it('admits a good one under the plan of its claim, and tells the backend who it is', async () => {
    await minuteWithAtLeast()
    const token = await sign(signer)
    for (const remaining of ['299', '298']) {
      const response = await gateway.fetch('/v1/pets', { key: token })
      expect(response.status).toBe(200)
      await response.arrayBuffer()
      expect(response.headers.get('x-ratelimit-limit')).toBe('300')
      expect(response.headers.get('x-ratelimit-remaining')).toBe(remaining)
      const seen = backend.requests.at(-1)
      expect(seen?.all('x-client-id')).toEqual(['token-client'])
      expect(seen?.all('x-client-plan')).toEqual(['pro'])
    }
    const other = await sign(signer, { claims: { sub: 'other-client', plan: 'business' } })
    const response = await gateway.fetch('/v1/pets', { key: other })
    await response.arrayBuffer()
    expect(response.headers.get('x-ratelimit-limit')).toBe('1000')
    expect(response.headers.get('x-ratelimit-remaining')).toBe('999')
  })

  it('counts a token of a configured client with its keys, under its configured plan', async () => {
    await minuteWithAtLeast()
    const token = await sign(signer, { claims: { sub: 'free-client', plan: 'business' } })
    const standings: (string | null)[][] = []
    for (const key of [keys.free, token, keys.free, token]) {
      const response = await gateway.fetch('/v1/pets', { key })
      await response.arrayBuffer()
      standings.push(
        ['x-ratelimit-limit', 'x-ratelimit-remaining'].map((name) => response.headers.get(name)),
      )
      expect(backend.requests.at(-1)?.all('x-client-id')).toEqual(['free-client'])
      expect(backend.requests.at(-1)?.all('x-client-plan')).toEqual(['free'])
    }
    expect(standings).toEqual(['59', '58', '57', '56'].map((left) => ['60', left]))
  })

  it('answers every other one as it answers an unknown key, and forwards none', async () => {
    const before = backend.requests.length
    const unknownKey = await told(await gateway.fetch('/v1/pets', { key: 'nobody' }))
    expect(unknownKey).toMatchObject({ status: 401 })
    const impostor = await createSigner('first')
    const good = await sign(signer)
    const [head = '', claims = '', signature = ''] = good.split('.')
    const encode = (value: object): string =>
      Buffer.from(JSON.stringify(value)).toString('base64url')
    const payload = JSON.parse(Buffer.from(claims, 'base64url').toString()) as object
    const bad: Record<string, string> = {
      'signed by another': await sign(impostor),
      'of an unknown key': await sign(signer, { kid: 'second' }),
      'of another issuer': await sign(signer, { claims: { iss: 'https://evil.example/' } }),
      'for another audience': await sign(signer, { claims: { aud: 'zoo' } }),
      'that has expired': await sign(signer, { claims: { exp: nowSeconds() - 1 } }),
      'that never expires': await sign(signer, { claims: { exp: undefined } }),
      'not yet good': await sign(signer, { claims: { nbf: nowSeconds() + 600 } }),
      'of no client': await sign(signer, { claims: { sub: undefined } }),
      'of a plan nobody knows': await sign(signer, { claims: { plan: 'gold' } }),
      'of a plan without limits of its own': await sign(signer, { claims: { plan: 'enterprise' } }),
      'without a signature': `${encode({ alg: 'none' })}.${claims}.`,
      'without an algorithm': `${encode({ alg: 'none' })}.${claims}.${signature}`,
      'with changed claims': `${head}.${encode({ ...payload, plan: 'business' })}.${signature}`,
      'with a stray character': `${good}=`,
    }
    for (const [which, token] of Object.entries(bad)) {
      const response = await gateway.fetch('/v1/pets', { key: token })
      expect(await told(response), which).toEqual(unknownKey)
    }
    expect(backend.requests.length).toBe(before)
    const still = await gateway.fetch('/v1/pets', { key: good })
    expect(still.status).toBe(200)
    await still.arrayBuffer()
  })

  it('admits until the second of expiry and not after it, however often the token was seen', async () => {
    const expires = nowSeconds() + 3
    const token = await sign(signer, { claims: { sub: 'brief-client', exp: expires } })
    let admitted = 0
    let refused = 0
    while (refused < 3) {
      const sentMs = Date.now()
      const response = await gateway.fetch('/v1/pets', { key: token })
      await response.arrayBuffer()
      const doneMs = Date.now()
      if (doneMs < expires * 1000) expect(response.status).toBe(200)
      if (sentMs >= expires * 1000) expect(response.status).toBe(401)
      if (response.status === 200) admitted++
      else refused++
      await sleep(25)
    }
    expect(admitted).toBeGreaterThan(1)
  })

  it('never logs a token or hands it to the backend', async () => {
    const token = await sign(signer, { claims: { sub: 'quiet-client' } })
    const response = await gateway.fetch('/v1/pets', { key: token })
    const id = response.headers.get('x-request-id')
    await response.arrayBuffer()
    const refused = await gateway.fetch('/v1/pets', { key: `${token.slice(0, -4)}AAAA` })
    await refused.arrayBuffer()
    await expect
      .poll(() => gateway.logLines().find((line) => line['id'] === id))
      .toMatchObject({ client: 'quiet-client', key: 'jwt:quiet-client', plan: 'pro', status: 200 })
    const bytes = backend.connections.map((connection) => connection.raw().toString('latin1'))
    for (const part of token.split('.')) {
      expect(JSON.stringify(gateway.logLines())).not.toContain(part)
      expect(bytes.join()).not.toContain(part)
    }
    expect(bytes.join()).toContain('quiet-client')
  })

  it('asks for the keys once, not once per token', () => {
    // The token of an unknown key above was worth one more look.
    expect(keyServer.requests()).toBeLessThanOrEqual(2)
  })
})

/** Nobody has signed it: random bytes that could be a signature. */
function forge({ alg = 'ES256', kid = 'first' }: { alg?: string; kid?: string } = {}): string {
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = { iss: issuer, aud: audience, sub: 'nobody', plan: 'pro', jti: randomUUID() }
  const signature = randomBytes(alg === 'ES512' ? 132 : 64)
  // Both numbers of an ES512 signature have 521 bits in 66 bytes; greater ones are refused without any arithmetic.
  if (alg === 'ES512') signature[0] = signature[66] = 0
  return [encode({ alg, kid }), encode({ ...claims, exp: nowSeconds() + 3_600 })]
    .concat(signature.toString('base64url'))
    .join('.')
}

/** Sends a token from an address of this machine. */
async function askFrom(localAddress: string, { port }: TestGateway, token: string, agent?: Agent) {
  const headers = { authorization: `Bearer ${token}` }
  const options = { host: '127.0.0.1', port, path: '/v1/pets', localAddress, headers, agent }
  const [response] = (await once(get(options), 'response')) as [IncomingMessage]
  response.resume()
  await once(response, 'end')
  const field = (name: string) => response.headers[name]
  return {
    status: response.statusCode,
    left: field('x-ratelimit-remaining'),
    retryAfter: field('retry-after'),
  }
}

describe('a gateway under a flood of tokens that somebody made up', () => {
  const [attacker, victim] = ['127.0.0.2', '127.0.0.3']
  const open = async ({ alg = 'ES256', perMinute = 60 } = {}) => {
    const backend = await startRawBackend({ respond: () => answer(200, '[]') })
    const signers = [await createSigner('first', alg), await createSigner('second', alg)] as const
    const keyServer = await serveKeys(signers[0].jwks)
    const jwt = jwtBlocks(keyServer.uri)['jwt'] ?? ''
    const gateway = await startTestGateway({
      upstreams: [backend.url],
      blocks: {
        jwt: jwt.replace('ES256', alg),
        anonymous: `anonymous: { perMinute: ${perMinute} }`,
      },
    })
    const stop = async (): Promise<void> => {
      await gateway.stop()
      await keyServer.close()
      await backend.close()
    }
    return { gateway, keyServer, signers, stop }
  }

  it.each([
    ['another address', victim],
    ['the same address', attacker],
  ])(
    'takes a rotated key of a holder behind %s as soon as the issuer has it, and charges nobody meanwhile',
    async (_, address) => {
      const { gateway, keyServer, signers, stop } = await open()
      const agent = new Agent({ keepAlive: true, maxSockets: 20 })
      const flooding = { isOver: false }
      const flood = Array.from({ length: 10 }, async () => {
        while (!flooding.isOver)
          await askFrom(attacker, gateway, forge({ kid: randomUUID() }), agent)
      })
      await expect.poll(() => keyServer.requests(), { timeout: 20_000 }).toBeGreaterThan(1)
      const [beganMs, requests] = [Date.now(), keyServer.requests()]
      keyServer.rotate(signers[1].jwks)
      const answers: Awaited<ReturnType<typeof askFrom>>[] = []
      while (answers.at(-1)?.status !== 200 && Date.now() - beganMs < 20_000) {
        const token = await sign(signers[1], { kid: 'second', claims: { jti: randomUUID() } })
        answers.push(await askFrom(address, gateway, token))
      }
      flooding.isOver = true
      await Promise.all(flood)
      expect(answers.at(-1)?.status).toBe(200)
      for (const { status, retryAfter, left } of answers.slice(0, -1)) {
        expect([status, retryAfter]).toEqual([503, '1'])
        if (address === victim) expect(left).toBe('60')
      }
      // One a second, and one may have been under way.
      const mostFetches = (Date.now() - beganMs) / 1_000 + 2
      expect(keyServer.requests() - requests).toBeLessThanOrEqual(mostFetches)
      agent.destroy()
      await stop()
    },
    60_000,
  )

  it('checks few signatures for an address over its anonymous limit, and serves who has shown his token there, or comes from elsewhere', async () => {
    const { gateway, signers, stop } = await open({ alg: 'ES512', perMinute: 5 })
    const [shown, fresh] = await Promise.all([
      sign(signers[0]),
      sign(signers[0], { claims: { jti: 'x' } }),
    ])
    expect(await askFrom(attacker, gateway, shown)).toMatchObject({ status: 200 })
    await minuteWithAtLeast(25_000)
    const checks = vi.spyOn(crypto.subtle, 'verify')
    const beganMs = performance.now()
    const agent = new Agent({ keepAlive: true, maxSockets: 10 })
    const statuses: (number | undefined)[] = []
    const flood = Array.from({ length: 10 }, async () => {
      for (let nth = 0; nth < 100; nth++)
        statuses.push((await askFrom(attacker, gateway, forge({ alg: 'ES512' }), agent)).status)
    })
    await Promise.all(flood)
    const [made, tookMs] = [checks.mock.calls.length, performance.now() - beganMs]
    checks.mockRestore()
    expect(statuses.filter((status) => status === 401)).toHaveLength(5)
    expect(statuses.filter((status) => status === 429)).toHaveLength(995)
    // As many as may still fail, 100 at once and 100 a second.
    expect(made).toBeLessThanOrEqual(5 + 100 + tookMs / 10)
    expect(await askFrom(attacker, gateway, shown)).toMatchObject({ status: 200 })
    expect(await askFrom(attacker, gateway, keys.pro)).toMatchObject({ status: 200 })
    expect(await askFrom(victim, gateway, fresh)).toMatchObject({ status: 200 })
    agent.destroy()
    await stop()
  })
})

describe('a client with tokens that goes on after a 429', () => {
  it('is banned with all its tokens, while the keys of the same client only share its quota', async () => {
    const backend = await startRawBackend({ respond: () => answer(200, '[]') })
    const signer = await createSigner('first')
    const keyServer = await serveKeys(signer.jwks)
    const gateway = await startTestGateway({
      upstreams: [backend.url],
      blocks: {
        ...jwtBlocks(keyServer.uri),
        bans: 'bans: { strikes: 2, grace: 0s }',
        plans: 'plans: { free: { perMinute: 2, perDay: 1000 } }',
        clients: `clients: [{ id: token-client, plan: free, keys: [{ id: key-1, sha256: ${sha256(keys.free)} }] }]`,
      },
    })
    await minuteWithAtLeast()
    const [first, second] = await Promise.all([
      sign(signer),
      sign(signer, { claims: { jti: 'another' } }),
    ])
    const code = async (key: string): Promise<string> => {
      const response = await gateway.fetch('/v1/pets', { key })
      const body = await response.text()
      return response.status === 200 ? '200' : (JSON.parse(body) as { code: string }).code
    }
    expect([await code(first), await code(second)]).toEqual(['200', '200'])
    expect(await code(first)).toBe('rate_limit_exceeded')
    await expect.poll(() => code(first)).toBe('api_key_banned')
    expect(await code(second)).toBe('api_key_banned')
    expect(await code(keys.free)).toBe('rate_limit_exceeded')
    const stranger = await sign(signer, { claims: { sub: 'somebody-else', plan: 'free' } })
    expect(await code(stranger)).toBe('200')
    expect(gateway.logLines().filter((line) => line['event'] === 'keyBanned')).toMatchObject([
      { key: 'jwt:token-client', client: 'token-client', strikes: 2 },
    ])
    expect(backend.requests.length).toBe(3)
    await gateway.stop()
    await keyServer.close()
    await backend.close()
  })
})

describe('a gateway whose issuer is away', () => {
  it('starts, serves API keys, and answers tokens 503 for nothing until it can tell', async () => {
    const backend = await startRawBackend({ respond: () => answer(200, '[]') })
    const signer = await createSigner('first')
    const port = await freePort()
    const gateway = await startTestGateway({
      upstreams: [backend.url],
      blocks: {
        ...jwtBlocks(`http://127.0.0.1:${port}/jwks.json`),
        anonymous: 'anonymous: { perMinute: 2 }',
      },
    })
    const token = await sign(signer)
    const ask = async (key: string) => {
      const response = await gateway.fetch('/v1/pets', { key })
      const { status, headers } = response
      const left = headers.get('x-ratelimit-remaining')
      return { status, left, retryAfter: headers.get('retry-after'), body: await response.text() }
    }
    const credentials = async (): Promise<object> => {
      const response = await fetch(`http://127.0.0.1:${gateway.adminPort}/readyz`)
      const { ready, checks } = (await response.json()) as { ready: boolean; checks: object[] }
      const check = checks.find((one) => 'name' in one && one.name === 'credentials')
      return { ready, ...check }
    }
    await minuteWithAtLeast()
    expect(await ask(keys.pro)).toMatchObject({ status: 200 })
    // Five times, and the address may still fail twice.
    for (let time = 0; time < 5; time++)
      expect(await ask(token)).toEqual({
        status: 503,
        left: '2',
        retryAfter: '5',
        body: '{"code":"service_unavailable","message":"The service is temporarily unavailable.","status":503}',
      })
    expect(await ask('nobody')).toMatchObject({ status: 401, left: '1' })
    expect(await credentials()).toEqual({
      ready: true,
      name: 'credentials',
      ok: true,
      reason: 'no key set yet, API keys only',
      warning: expect.stringContaining('ECONNREFUSED'),
    })
    const unavailable = 'tollgate_credential_unavailable_total{reason="no_key_set"}'
    expect(await gateway.metric(unavailable)).toBe(5)
    expect(await gateway.metric('tollgate_jwks_failures_total')).toBeGreaterThan(0)
    const lines = gateway.logLines()
    expect(lines.map((line) => line['event'])).toContain('keySetFailed')
    expect(lines.filter((line) => line['status'] === 503)).toHaveLength(5)
    expect(lines.find((line) => line['status'] === 503)).toMatchObject({
      level: 'warn',
      refusal: 'service_unavailable',
      cause: 'no key set of the token issuer has come yet',
    })
    const keyServer = await serveKeys(signer.jwks, port)
    await expect
      .poll(async () => (await ask(token)).status, { timeout: 20_000, interval: 100 })
      .toBe(200)
    expect(await credentials()).toMatchObject({ ok: true, reason: 'API keys and tokens' })
    expect(await gateway.metric('tollgate_jwks_age_seconds')).toBeGreaterThan(0)
    // From here on the keys are known: the issuer may go again.
    await keyServer.close()
    const another = await sign(signer, { claims: { jti: 'another' } })
    expect(await ask(another)).toMatchObject({ status: 200 })
    await gateway.stop()
    await backend.close()
  })

  it('is not ready where tokens are all that it takes', async () => {
    const backend = await startRawBackend()
    const gateway = await startTestGateway({
      upstreams: [backend.url],
      blocks: {
        ...jwtBlocks(`http://127.0.0.1:${await freePort()}/jwks.json`),
        clients: 'clients: []',
      },
    })
    const response = await fetch(`http://127.0.0.1:${gateway.adminPort}/readyz`)
    expect(response.status).toBe(503)
    const { checks } = (await response.json()) as { checks: object[] }
    expect(checks.filter((check) => 'ok' in check && !check.ok)).toMatchObject([
      { name: 'credentials', reason: 'no key set yet' },
    ])
    await gateway.stop()
    await backend.close()
  })
})
