/** Pages of other origins: what a browser asks before it sends, and what lets a page read the answer. */
import { expect, it } from 'vitest'
import { gatewayTo, startBacked } from '../../support/backed.ts'
import { keys } from '../../support/gateway.ts'
import { rawExchange } from '../../support/raw-client.ts'
import { answer } from '../../support/raw-backend.ts'

const app = 'https://app.example'
const foreign = 'https://evil.example'
/** Browsers send it with every request of a page; fetch of Node.js would not let us. */
const head = (start: string, ...fields: string[]): string =>
  [`${start} HTTP/1.1`, 'Host: api', ...fields].map((line) => `${line}\r\n`).join('') + '\r\n'
const preflight = (path: string, method: string, origin = app): string =>
  head(`OPTIONS ${path}`, `Origin: ${origin}`, `Access-Control-Request-Method: ${method}`)

const { backend, gateway } = await startBacked({
  respond: () =>
    answer(
      200,
      'ok',
      'Access-Control-Allow-Origin: *',
      'access_control_allow_origin: *',
      'Vary: Accept',
    ),
  blocks: { cors: `cors: { origins: ["${app}"] }` },
})

const corsOf = async (text: string, port = gateway.port) => {
  const { responses } = await rawExchange(port, text, { responses: 1 })
  const [response] = responses
  expect(responses).toHaveLength(1)
  const fields = (response?.headers ?? []).map(String)
  const named: Record<string, string> = {}
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at]?.toLowerCase() ?? ''
    if (/^(?:access-control-|vary$|ratelimit|x-ratelimit|retry-after)/.test(name))
      named[name] = name in named ? `${named[name]} | ${fields[at + 1]}` : `${fields[at + 1]}`
  }
  return { status: response?.status, body: String(response?.body), named }
}

const vary = 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'
const granted = {
  'access-control-allow-origin': app,
  'access-control-allow-headers': 'authorization, content-type',
  'access-control-max-age': '7200',
  vary,
}
it.each([
  ['/v1/pets', 'POST', 'GET, HEAD, POST'],
  ['/v1/pets/7', 'GET', 'GET, HEAD'],
  // What is not listed is forwarded here.
  ['/v1/pets/7', 'PATCH', 'GET, HEAD, PATCH'],
  ['/v1/unknown', 'PUT', 'PUT'],
  // What no request may have is not named.
  ['/v1/pets/7', 'patch', 'GET, HEAD'],
])('tells a page before it sends that %s takes %s', async (path, method, methods) => {
  const before = backend.requests.length
  const { status, body, named } = await corsOf(preflight(path, method))
  expect({ status, body }).toEqual({ status: 204, body: '' })
  expect(named).toEqual({ ...granted, 'access-control-allow-methods': methods })
  expect(backend.requests).toHaveLength(before)
})

it('tells a hundred pages of one address, at once: nobody counts what they ask', async () => {
  const text = preflight('/v1/pets', 'GET').repeat(100)
  const { responses } = await rawExchange(gateway.port, text, { responses: 100 })
  const got = responses.map(({ status }) => status)
  expect(got).toHaveLength(100)
  expect(got).toContain(204)
  // On a machine that is late some may get 503.
  expect(got.filter((status) => status !== 204 && status !== 503)).toEqual([])
})

it('names what is routed alone where nothing else is forwarded', async () => {
  const cors = 'cors: { origins: ["*"] }'
  const strict = await gatewayTo([backend.url], { cors, unmatched: 'unmatched: reject' })
  const known = await corsOf(preflight('/v1/pets/7', 'PATCH'), strict.port)
  expect(known.named).toMatchObject({
    'access-control-allow-origin': '*',
    'access-control-allow-methods': 'GET, HEAD',
  })
  const unknown = await corsOf(preflight('/v1/unknown', 'GET'), strict.port)
  expect(unknown.status).toBe(204)
  expect(unknown.named).not.toHaveProperty('access-control-allow-methods')
})

it('tells a page of a foreign origin nothing', async () => {
  const asked = await corsOf(preflight('/v1/pets', 'GET', foreign))
  expect(asked).toEqual({ status: 204, body: '', named: { vary } })
  const sent = await corsOf(
    head('GET /v1/pets', `Origin: ${foreign}`, `Authorization: Bearer ${keys.pro}`),
  )
  expect(sent).toMatchObject({ status: 200, body: 'ok' })
  // Kept apart in caches from what others are told.
  expect(sent.named['vary']).toBe('Origin | Accept')
  const unparsed = await corsOf(head('BREW /v1/pets', `Origin: ${foreign}`))
  expect([unparsed.status, unparsed.named['vary']]).toEqual([501, 'Origin'])
  for (const { named } of [sent, unparsed])
    expect(Object.keys(named).filter((name) => name.startsWith('access-control'))).toEqual([])
})

it.each([
  ['an answer', 200, head('GET /v1/pets', `Origin: ${app}`, `Authorization: Bearer ${keys.pro}`)],
  ['a 401', 401, head('GET /v1/pets', `Origin: ${app}`)],
  ['a 404', 404, head('GET /elsewhere', `Origin: ${app}`)],
  ['a 400', 400, head('GET /v1/pets', `Origin: ${app}`, 'Host: again')],
  // Where the parser gave up, and there was no request.
  ['another 400', 400, head('GET /v1/pets', `Origin: ${app}`, 'no field')],
  ['a 414', 414, head(`GET /v1/${'x'.repeat(40_000)}`, `Origin: ${app}`)],
  ['a 431', 431, head('GET /v1/pets', `Origin: ${app}`, `X-Long: ${'x'.repeat(40_000)}`)],
  ['a 501', 501, head('BREW /v1/pets', `origin:${app}`)],
  ['a preflight outside', 404, preflight('/elsewhere', 'GET')],
  ['no preflight: no method is asked for', 401, head('OPTIONS /v1/pets', `Origin: ${app}`)],
  [
    'no preflight: what is asked for is no method',
    401,
    head('OPTIONS /v1/pets', `Origin: ${app}`, 'Access-Control-Request-Method: a b'),
  ],
])('lets a page read %s, and the fields that it is to obey', async (_, status, text) => {
  const { status: got, named } = await corsOf(text)
  expect(got).toBe(status)
  // The backend's own word is not passed on, under no spelling.
  expect(named['access-control-allow-origin']).toBe(app)
  expect(named['access-control-expose-headers']).toContain('X-RateLimit-Remaining')
  expect(named['vary']).toBe(status === 200 ? 'Origin | Accept' : 'Origin')
  expect(named).toHaveProperty('x-ratelimit-remaining')
})

it('left out passes on what a backend says, and asks for a credential first', async () => {
  const plain = await gatewayTo([backend.url])
  expect((await corsOf(preflight('/v1/pets', 'GET'), plain.port)).status).toBe(401)
  const { named } = await corsOf(
    head('GET /v1/pets', `Origin: ${app}`, `Authorization: Bearer ${keys.pro}`),
    plain.port,
  )
  expect(named).toMatchObject({ 'access-control-allow-origin': '*', vary: 'Accept' })
})
