/** Signed tokens at a running gateway, with the issuer's keys on a real HTTP server; when they expire is shown by test/core/credentials. */
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { backed, startBacked } from '../../support/backed.ts'
import { keys, minuteWithAtLeast, type TestGateway } from '../../support/gateway.ts'
import { freePort } from '../../support/redis-server.ts'
import { believing, claimsOf, createSigner, tokenHeader } from '../../support/tokens.ts'
import { serveKeys, sign } from '../../support/tokens.ts'

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

const jwtBlocks = (uri: string): Record<string, string> => ({
  jwt: believing(`jwksUri: "${uri}"`),
  anonymous: 'anonymous: { perMinute: 100000 }',
})

/** What the caller is told, without what differs from one request to the next by design. */
async function told(response: Response): Promise<object> {
  const { 'x-request-id': _, date: __, ...headers } = Object.fromEntries(response.headers)
  for (const name of ['x-ratelimit-remaining', 'x-ratelimit-reset', 'ratelimit'])
    delete headers[name]
  return { status: response.status, headers, body: await response.text() }
}

describe('a gateway that takes tokens', async () => {
  const signer = await createSigner()
  const keyServer = await serveKeys(signer.jwks)
  const { backend, gateway } = await startBacked({ blocks: jwtBlocks(keyServer.uri) })
  const standing = async (key: string) => {
    const { status, left, header } = await gateway.ask('/v1/pets', { key })
    const seen = backend.requests.at(-1)
    const who = ['x-client-id', 'x-client-plan'].flatMap((name) => seen?.all(name) ?? [])
    return [status, ...who, Number(header('x-ratelimit-limit')), left]
  }

  it('admits a good one under the plan of its claim, or of the configuration where its client is there, and tells the backend who it is', async () => {
    // On a busy machine the first look for the keys may have come too late.
    const early = await sign(signer, { sub: 'early-client' })
    await expect.poll(() => gateway.status('/v1/pets', { key: early })).toBe(200)
    await minuteWithAtLeast()
    const token = await sign(signer)
    for (const left of [299, 298])
      expect(await standing(token)).toEqual([200, 'token-client', 'pro', 300, left])
    const other = await sign(signer, { sub: 'other-client', plan: 'business' })
    expect(await standing(other)).toEqual([200, 'other-client', 'business', 1_000, 999])
    // Counted with its keys.
    const known = await sign(signer, { sub: 'free-client', plan: 'business' })
    for (const [at, key] of [keys.free, known, keys.free, known].entries())
      expect(await standing(key)).toEqual([200, 'free-client', 'free', 60, 59 - at])
  })

  it('answers every other one as it answers an unknown key, and forwards none', async () => {
    const before = backend.requests.length
    const unknownKey = await told(await gateway.fetch('/v1/pets', { key: 'nobody' }))
    expect(unknownKey).toMatchObject({ status: 401 })
    const good = await sign(signer)
    // All there are: test/core/credentials/jwt-verifier.test.ts.
    const bad = {
      'signed by another': await sign(await createSigner()),
      'that has expired': await sign(signer, { exp: Math.floor(Date.now() / 1000) - 1 }),
      'of a plan nobody knows': await sign(signer, { plan: 'gold' }),
    }
    for (const [which, token] of Object.entries(bad)) {
      const response = await gateway.fetch('/v1/pets', { key: token })
      expect(await told(response), which).toEqual(unknownKey)
    }
    expect(backend.requests.length).toBe(before)
    expect(await gateway.status('/v1/pets', { key: good })).toBe(200)
  })

  it('never logs a token or hands it to the backend, and asks for the keys once, not once per token', async () => {
    const token = await sign(signer, { sub: 'quiet-client' })
    const { header } = await gateway.ask('/v1/pets', { key: token })
    const id = header('x-request-id')
    expect(await gateway.status('/v1/pets', { key: `${token.slice(0, -4)}AAAA` })).toBe(401)
    await expect
      .poll(() => gateway.logLines().find((line) => line['id'] === id))
      .toMatchObject({ client: 'quiet-client', key: 'jwt:quiet-client', plan: 'pro', status: 200 })
    const bytes = backend.connections.map((connection) => connection.raw().toString('latin1'))
    for (const part of token.split('.')) {
      expect(JSON.stringify(gateway.logLines())).not.toContain(part)
      expect(bytes.join()).not.toContain(part)
    }
    expect(bytes.join()).toContain('quiet-client')
    const late = await gateway.metric('tollgate_jwks_failures_total')
    expect(keyServer.requests()).toBeLessThanOrEqual(1 + late)
  })
})

async function askFrom(localAddress: string, { port }: TestGateway, token: string, agent?: Agent) {
  const headers = { authorization: `Bearer ${token}` }
  const options = { host: '127.0.0.1', port, path: '/v1/pets', localAddress, headers, agent }
  const [response] = (await once(get(options), 'response')) as [IncomingMessage]
  response.resume()
  await once(response, 'end')
  return response.statusCode
}

it('a gateway under a flood of tokens that somebody made up checks few signatures for an address over its anonymous limit, and serves who has shown his token there, or comes from elsewhere', async () => {
  const [attacker, victim] = ['127.0.0.2', '127.0.0.3']
  const signer = await createSigner()
  const keyServer = await serveKeys(signer.jwks)
  const blocks = jwtBlocks(keyServer.uri)
  const { gateway } = await backed({
    blocks: { ...blocks, anonymous: 'anonymous: { perMinute: 5 }' },
  })
  const agent = new Agent({ keepAlive: true })
  onTestFinished(() => agent.destroy())
  /** Nobody has signed it: random bytes that could be a signature. */
  const forge = (): string => {
    const parts = [tokenHeader, claimsOf({ sub: 'nobody', jti: randomUUID() })].map(encode)
    return [...parts, randomBytes(64).toString('base64url')].join('.')
  }
  const [shown, fresh] = [await sign(signer), await sign(signer, { jti: 'x' })]
  expect(await askFrom(attacker, gateway, shown)).toBe(200)
  const checks = vi.spyOn(crypto.subtle, 'verify')
  const [beganMs, beganMinute] = [performance.now(), Math.floor(Date.now() / 60_000)]
  const statuses: (number | undefined)[] = []
  const flood = Array.from({ length: 10 }, async () => {
    for (let nth = 0; nth < 40; nth++)
      statuses.push(await askFrom(attacker, gateway, forge(), agent))
  })
  await Promise.all(flood)
  const [made, tookMs] = [checks.mock.calls.length, performance.now() - beganMs]
  checks.mockRestore()
  const minutes = 1 + Math.floor(Date.now() / 60_000) - beganMinute
  const unknown = statuses.filter((status) => status === 401).length
  expect(unknown).toBeGreaterThanOrEqual(5)
  expect(unknown).toBeLessThanOrEqual(5 * minutes)
  expect(statuses.filter((status) => status === 429)).toHaveLength(400 - unknown)
  // As many as may still fail, 100 at once and 100 a second.
  expect(made).toBeLessThanOrEqual(unknown + 100 + tookMs / 10)
  expect(await askFrom(attacker, gateway, shown)).toBe(200)
  expect(await askFrom(attacker, gateway, keys.pro)).toBe(200)
  expect(await askFrom(victim, gateway, fresh)).toBe(200)
})

describe('a gateway whose issuer is away', () => {
  it('starts, serves API keys, and answers tokens 503 for nothing until it can tell', async () => {
    const signer = await createSigner()
    const port = await freePort()
    const blocks = jwtBlocks(`http://127.0.0.1:${port}/jwks.json`)
    const { gateway } = await backed({
      blocks: { ...blocks, anonymous: 'anonymous: { perMinute: 2 }' },
    })
    const token = await sign(signer)
    const ask = (key: string) => gateway.ask('/v1/pets', { key })
    const credentials = async () => (await gateway.readiness()).reasons['credentials']
    await minuteWithAtLeast()
    expect(await ask(keys.pro)).toMatchObject({ status: 200 })
    // Five times, and the address may still fail twice.
    for (let time = 0; time < 5; time++) {
      const undecided = await ask(token)
      expect(undecided).toMatchObject({ status: 503, left: 2 })
      expect(undecided.header('retry-after')).toBe('5')
      expect(undecided.body).toBe(
        '{"code":"service_unavailable","message":"The service is temporarily unavailable.","status":503}',
      )
    }
    expect(await ask('nobody')).toMatchObject({ status: 401, left: 1 })
    expect(await credentials()).toBe('no key set yet, API keys only')
    const unavailable = 'tollgate_credential_unavailable_total{reason="no_key_set"}'
    expect(await gateway.metric(unavailable)).toBe(5)
    expect(await gateway.metric('tollgate_jwks_failures_total')).toBeGreaterThan(0)
    expect(gateway.lines('keySetFailed')).not.toEqual([])
    const line = {
      level: 'warn',
      refusal: 'service_unavailable',
      cause: 'no key set of the token issuer has come yet',
    }
    const lines = gateway.logLines().filter(({ status }) => status === 503)
    expect(lines).toMatchObject(Array.from({ length: 5 }, () => line))
    const keyServer = await serveKeys(signer.jwks, port)
    await expect.poll(async () => (await ask(token)).status, { interval: 100 }).toBe(200)
    expect(await credentials()).toBe('API keys and tokens')
    expect(await gateway.metric('tollgate_jwks_age_seconds')).toBeGreaterThan(0)
    // From here on the keys are known: the issuer may go again.
    keyServer.close()
    expect(await ask(await sign(signer, { jti: 'another' }))).toMatchObject({ status: 200 })
  })
})
