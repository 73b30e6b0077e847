/** A page in a real browser, of another origin than the API, with the gateway in front of the catalogue. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { atEnd } from '../support/ending.ts'
import { openBrowser, startSite } from '../support/browser.ts'
import { runCatalogue } from '../tools/catalogue/running-catalogue.ts'
import { keys, sha256, startTestGateway } from '../support/gateway.ts'
import { openRawClient } from '../support/raw-client.ts'
import { minuteWithAtLeast } from '../support/utc-windows.ts'
import { configFile, eventually, gatewayHere, type GatewayHere } from './gateways.ts'

/** What the page was let know. */
interface Seen {
  /** 0: nothing at all. */
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  readonly atMs: number
}

const html = readFileSync(join(import.meta.dirname, '../support/quota-page.html'), 'utf8')
const single = 'tg_test_browser_single'

describe('a page of another origin', () => {
  let browser: Browser
  let site: string
  let foreignSite: string
  let catalogue: string
  let gateway: GatewayHere
  let page: Page

  const openPage = async (origin: string): Promise<Page> => {
    const opened = await browser.newPage({ viewport: { width: 640, height: 400 } })
    await opened.goto(origin)
    return opened
  }
  const ask = async (
    how: 'once' | 'obeying',
    path: string,
    { key = '', origin = gateway.origin, from = page, ...init }: AskOptions = {},
  ): Promise<Seen[]> => {
    const headers = { ...(key !== '' && { authorization: `Bearer ${key}` }), ...init.headers }
    const given = JSON.stringify({ ...init, headers })
    const script = `${how}(${JSON.stringify(origin + path)}, ${given})`
    return [(await from.evaluate(script)) as Seen | Seen[]].flat()
  }
  const lines = () => gateway.logged('access')

  beforeAll(async () => {
    const service = await runCatalogue()
    catalogue = `http://127.0.0.1:${service.catalogue.address.port}`
    ;[browser, site, foreignSite] = await Promise.all([
      openBrowser(),
      startSite(html),
      startSite(html),
    ])
    atEnd(() => browser.close())
    gateway = await gatewayHere(
      configFile(catalogue, {
        cors: `cors: { origins: ["${site}"] }`,
        plans: `plans: { free: { perMinute: 60, perDay: 1000 }, single: { perMinute: 60, perDay: 100, concurrent: 1 } }`,
        clients: `clients:
  - { id: free-client, plan: free, keys: [{ id: free-1, sha256: ${sha256(keys.free)} }] }
  - { id: single-client, plan: single, keys: [{ id: single-1, sha256: ${sha256(single)} }] }`,
      }),
    )
    page = await openPage(site)
  })

  it('reads and shows what is left of its quota, of which a preflight costs nothing', async () => {
    await minuteWithAtLeast(10_000)
    const pet = { name: 'Rex', categoryId: 1, photoUrls: [], status: 'available' }
    const asJson = { 'content-type': 'application/json' }
    const made = { key: keys.free, method: 'POST', headers: asJson, body: JSON.stringify(pet) }
    const [created] = await ask('obeying', '/v1/pets', made)
    expect(created).toMatchObject({ status: 201, headers: { 'x-ratelimit-remaining': '59' } })
    const [seen] = await ask('obeying', '/v1/pets/1', { key: keys.free })
    expect(seen).toMatchObject({
      status: 200,
      headers: {
        'x-ratelimit-limit': '60',
        'x-ratelimit-remaining': '58',
        'x-ratelimit-reset': expect.stringMatching(/^\d{10}$/) as string,
        'ratelimit-policy': '"minute";q=60;w=60, "day";q=1000;w=86400',
        ratelimit: expect.stringMatching(/^"minute";r=58;t=\d+, "day";r=998;t=\d+$/) as string,
        deprecation: `@${Date.UTC(2025, 11, 5) / 1000}`,
        sunset: 'Thu, 05 Dec 2030 00:00:00 GMT',
        link: '</v1/pets?status=available>; rel="successor-version"',
      },
    })
    expect(await page.textContent('main')).toContain('58 of 60 requests left')
    // It asks for no further leave for what it was given leave for.
    const [again] = await ask('once', '/v1/pets/1', { key: keys.free })
    expect(again?.headers['x-ratelimit-remaining']).toBe('57')
    await eventually('the log', () => lines().length === 5)
    expect(lines().map(({ method, path }) => `${String(method)} ${String(path)}`)).toEqual([
      'OPTIONS /v1/pets',
      'POST /v1/pets',
      'OPTIONS /v1/pets/1',
      'GET /v1/pets/1',
      'GET /v1/pets/1',
    ])
    for (const { method, backend } of lines())
      expect(backend).toBe(method === 'OPTIONS' ? undefined : catalogue)
    // By which it finds the request again.
    expect(lines().at(-1)?.['id']).toBe(again?.headers['x-request-id'])
  })

  it('obeys a 429: waits as long as it is told, and is then let in', async () => {
    const holder = await openRawClient(Number(new URL(gateway.origin).port))
    const fields = ['Host: api', `Authorization: Bearer ${single}`, 'Content-Length: 2']
    holder.send(`POST /v1/pets HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`)
    await eventually(
      'the one request at once that it may have',
      async () => (await gateway.metric('tollgate_requests_in_flight')) === 1,
    )
    const asked = ask('obeying', '/v1/pets', { key: single })
    await page.waitForFunction('document.querySelector("#notice").textContent.includes("429")')
    holder.destroy()
    const answers = await asked
    expect(answers.length).toBeGreaterThan(1)
    expect(answers.at(-1)).toMatchObject({ status: 200 })
    for (const [at, { status, headers, text, atMs }] of answers.slice(0, -1).entries()) {
      expect([status, headers['retry-after']]).toEqual([429, '1'])
      expect(JSON.parse(text)).toMatchObject({ code: 'concurrency_limit_exceeded' })
      expect((answers[at + 1]?.atMs ?? 0) - atMs).toBeGreaterThan(999)
    }
  })

  it.each([
    [401, 'invalid_api_key', { key: 'wrong' }],
    [401, 'invalid_api_key', { key: 'wrong', method: 'POST', body: 'x'.repeat(900_000) }],
    [413, 'body_too_large', { key: keys.free, method: 'POST', body: 'x'.repeat(3_000_000) }],
    [431, 'headers_too_large', { key: keys.free, headers: { 'content-type': 'x'.repeat(20_000) } }],
    // More than Node's parser takes.
    [431, 'headers_too_large', { key: keys.free, headers: { 'content-type': 'x'.repeat(32_000) } }],
  ])('reads why it is refused with %i %s', async (status, code, options) => {
    const [seen] = await ask('once', '/v1/pets', options)
    expect(seen).toMatchObject({
      status,
      headers: { 'x-request-id': expect.any(String) as string },
    })
    expect(JSON.parse(seen?.text ?? '')).toMatchObject({ code })
  })

  it('is not heard, and learns nothing, where its origin is foreign', async () => {
    const foreign = await openPage(foreignSite)
    const before = lines().length
    for (const options of [{ key: keys.free }, {}])
      expect(await ask('once', '/v1/pets', { from: foreign, ...options })).toMatchObject([
        { status: 0, headers: {}, text: 'TypeError: Failed to fetch' },
      ])
    await eventually('the log', () => lines().length === before + 2)
    // What needs leave did not come; what a form could send did, without a credential.
    expect(lines().slice(before)).toMatchObject([
      { method: 'OPTIONS', status: 204 },
      { method: 'GET', status: 401 },
    ])
  })

  it.each([
    ['one that is named, with credentials', () => site, true, [200, 200]],
    ['one that is named', () => site, false, [200, 0]],
    ['any', () => '*', false, [200, 0]],
  ])(
    'may send cookies only where that is granted: %s',
    async (_, origin, credentials, statuses) => {
      const other = await startTestGateway({
        upstreams: [catalogue],
        blocks: { cors: `cors: { origins: ["${origin()}"], credentials: ${credentials} }` },
      })
      const given = { key: keys.free, origin: other.origin }
      const [without] = await ask('once', '/v1/pets', given)
      const [included] = await ask('once', '/v1/pets', { ...given, credentials: 'include' })
      expect([without?.status, included?.status]).toEqual(statuses)
    },
  )
})

interface AskOptions {
  readonly key?: string
  readonly origin?: string
  readonly from?: Page
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
  readonly credentials?: 'include'
}
