/** What others may try on the admin listener of a running gateway: every operation that changes something is tried, whichever there are. */
import { describe, expect, it } from 'vitest'
import { operations } from '../../src/admin/api.ts'
import { sha256, startTestGateway } from '../support/gateway.ts'
import { openRawClient, rawExchange, type ParsedResponse } from '../support/raw-client.ts'

const TOKEN = 'the-token-of-an-operator'
const gateway = await startTestGateway({
  upstreams: ['http://127.0.0.1:9'],
  blocks: { admin: `admin: { listen: "127.0.0.1:0", tokenSha256: ${sha256(TOKEN)} }` },
})

const bearer = `Authorization: Bearer ${TOKEN}`

async function ask(line: string, fields: readonly string[] = [], host = 'localhost') {
  const [method = ''] = line.split(' ')
  const head = [`${line} HTTP/1.1`, `Host: ${host}`, 'Content-Length: 2', ...fields]
  const bytes = `${head.join('\r\n')}\r\n\r\n{}`
  const options = { responses: 1, methods: [method] }
  const { responses } = await rawExchange(gateway.adminPort, bytes, options)
  return responses[0] as ParsedResponse
}
const codeOf = ({ body }: ParsedResponse): unknown =>
  (JSON.parse(body.toString()) as { code: unknown }).code

const type = 'Content-Type: application/json'
const attacks: readonly [string, number, readonly string[], string?][] = [
  ['without a token', 401, [type]],
  ['with another token', 401, [type, 'Authorization: Bearer the-token-of-an-operatoR']],
  ['with the beginning of the token', 401, [type, bearer.slice(0, -1)]],
  ['with the digest of the token', 401, [type, `Authorization: Bearer ${sha256(TOKEN)}`]],
  ['with the token as a password', 401, [type, `Authorization: Basic ${btoa(`a:${TOKEN}`)}`]],
  ['with the token in a cookie', 401, [type, `Cookie: token=${TOKEN}`]],
  ['from a page of another site', 403, [type, bearer, 'Origin: https://evil.example']],
  ['from a page that hides its site', 403, [type, bearer, 'Origin: null']],
  ['by a name that was made to point here', 403, [type, bearer], 'rebound.example'],
]
const changes = operations.filter(({ action }) => action !== undefined)

describe('each change is refused', () => {
  it.each(attacks)('%s, and is told as refused', async (_name, status, fields, host) => {
    expect(changes.length).toBeGreaterThan(0)
    for (const { method, path } of changes) {
      const answer = await ask(`${method} ${path.replaceAll(/\{\w+\}/g, 'free-1')}`, fields, host)
      expect([path, answer.status]).toEqual([path, status])
    }
  })

  it('in the log alone: none of them was audited as a change', async () => {
    await gateway.metric('none')
    await expect.poll(() => gateway.lines('auditRefused')).not.toEqual([])
    expect(gateway.lines('audit')).toEqual([])
    for (const line of gateway.logLines()) expect(JSON.stringify(line)).not.toContain(TOKEN)
  })
})

describe('a path', () => {
  it.each([
    '/api/%63onfig',
    '/api/config/',
    '/api//config',
    '/api/%2e%2e/api/config',
    '/api/config%2f',
    '/API/config',
    '/api\\config',
    'http://localhost/api/config',
    `/api/${'a'.repeat(7_000)}`,
  ])('is what it says: %s is no operation', async (path) => {
    const answer = await ask(`GET ${path}`, [bearer])
    expect([answer.status, codeOf(answer)]).toEqual([404, 'not_found'])
  })

  it('in disguise does not get round the token', async () => {
    for (const path of ['/metrics?a=/healthz', '/api/config#/healthz', '/api/config?/healthz'])
      expect([path, (await ask(`GET ${path}`)).status]).toEqual([path, 401])
  })
})

describe('a connection', () => {
  it('on which many requests are unanswered is closed, and others are served', async () => {
    const flood = await openRawClient(gateway.adminPort)
    const one = `GET /metrics HTTP/1.1\r\nHost: localhost\r\n${bearer}\r\n\r\n`
    flood.send(one.repeat(2_000))
    const { responses } = await flood.waitFor(({ closed }) => closed)
    expect(responses.length).toBeLessThan(50)
    expect((await ask('GET /healthz')).status).toBe(200)
  })

  it('may carry a few at a time, answered in order', async () => {
    const client = await openRawClient(gateway.adminPort)
    const paths = ['/healthz', '/api/config', '/nothing', '/healthz']
    client.send(paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`).join(''))
    const { responses } = await client.waitForResponses(4)
    expect(responses.map(({ status }) => status)).toEqual([200, 401, 404, 200])
    client.destroy()
  })

  it('with a body without end costs no memory, and holds up nobody', async () => {
    const client = await openRawClient(gateway.adminPort)
    client.send(
      `POST /api/reload HTTP/1.1\r\nHost: localhost\r\n${type}\r\n${bearer}\r\nTransfer-Encoding: chunked\r\n\r\n`,
    )
    // What is still on its way when the connection is closed is answered with a reset.
    client.socket.on('error', () => undefined)
    const closed = new Promise((resolve) => client.socket.once('close', resolve))
    const before = process.memoryUsage().rss
    const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`
    for (let sent = 0; sent < 3_000 && client.socket.writable; sent++)
      if (!client.socket.write(chunk))
        // Where this takes long it is closed: it has been refused for more than a second.
        await Promise.race([closed, new Promise((resolve) => client.socket.once('drain', resolve))])
    expect((await ask('GET /healthz')).status).toBe(200)
    expect(process.memoryUsage().rss - before).toBeLessThan(130_000_000)
    if (client.socket.writable) client.send('0\r\n\r\n')
    expect((await client.waitForResponses(1)).responses[0]?.status).toBe(413)
    client.destroy()
  })
})
