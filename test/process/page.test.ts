/** The operators' page in a real browser, in front of a gateway that is loaded: one client is limited, one key banned, one backend dead. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { askAdmin } from '../support/admin-client.ts'
import { atEnd, gatewayEnds } from '../support/ending.ts'
import { axeFaults, openBrowser } from '../support/browser.ts'
import { typed } from '../support/command-line.ts'
import { sha256, startTestGateway } from '../support/gateway.ts'
import { temporaryFolder } from '../support/processes.ts'
import { words } from '../support/words.ts'
import { freePort } from '../support/redis-server.ts'
import { clientsBlock, configFile, eventually, startRawBackend, gatewayHere } from './gateways.ts'
import { times, type GatewayHere } from './gateways.ts'

const clients = [
  { id: 'bolt', keys: ['tg_bolt_1'], perMinute: 20, perDay: 20 },
  { id: 'acme', keys: ['tg_acme_1', 'tg_acme_2'], perMinute: 5_000 },
  { id: 'oldco', keys: ['tg_oldco_1'], perMinute: 100 },
]
const views = words(
  '/ /clients /clients/bolt /bans /routes /system /config /explain?method=GET&target=%2Fv1%2Fpets&key=bolt-1',
)

describe("the operators' page", () => {
  let browser: Browser
  let gateway: GatewayHere
  let config: string
  let page: Page
  const violations: string[] = []

  const open = async (options: Parameters<Browser['newPage']>[0] = {}): Promise<Page> => {
    const opened = await browser.newPage({ viewport: { width: 1200, height: 800 }, ...options })
    opened.setDefaultTimeout(90_000)
    opened.on('console', (line) => {
      if (/Content Security Policy/.test(line.text())) violations.push(line.text())
    })
    opened.on('pageerror', (error) => violations.push(String(error)))
    return opened
  }
  const at = async (view: string, on = page): Promise<void> => {
    await on.goto(`${gateway.adminOrigin}/#${view}`)
    await on.locator('h1').waitFor()
  }
  const press = (name: string | RegExp, on = page) =>
    on.getByRole('button', { name }).last().click()
  const code = async (key: string) => (await gateway.call(key)).code

  beforeAll(async () => {
    const [opened, backend, dead] = await Promise.all([
      openBrowser(),
      startRawBackend(),
      freePort(),
    ])
    browser = opened
    atEnd(() => browser.close())
    config = configFile(backend.url, {
      upstream: `upstream: { urls: [${backend.url}, "http://127.0.0.1:${dead}"], eject: { failures: 2, for: 30s } }`,
      store: `store: { file: "${join(temporaryFolder(), 'store.db')}" }`,
      bans: 'bans: { strikes: 1000000 }',
      routes: `routes:
  - { name: listPets, match: "GET /pets" }
  - { name: getPet, match: "GET /pets/{petId}", deprecated: { since: 2025-12-05, sunset: 2030-12-05 } }
  - { name: lost, match: "GET /v1/lost" }`,
      clients: clientsBlock(clients),
    })
    gateway = await gatewayHere(config)
    const load = setInterval(() => {
      for (const key of ['tg_bolt_1', 'tg_acme_1'])
        gateway.call(key, key === 'tg_acme_1' ? '/v1/pets/1' : '/v1/pets').catch(() => {})
    }, 100)
    gatewayEnds(() => clearInterval(load))
    const wish = { for: '1h', reason: 'abuse report 4711' }
    expect((await askAdmin(gateway.adminOrigin, 'PUT /api/bans/acme-2', wish)).status).toBe(200)
    page = await open()
    await page.goto(gateway.adminOrigin)
  })

  it('names first which client is limited and why, and which backend is dead', async () => {
    const attention = page.locator('#attention')
    await expect.poll(() => attention.textContent()).toMatch(/bolt.*day/)
    await expect.poll(() => attention.textContent()).toContain('127.0.0.1')
    await expect.poll(() => page.locator('#state').textContent()).toBe('● live')
    const row = page.getByRole('row', { name: /bolt/ })
    await expect.poll(() => row.textContent()).toMatch(/20\/20 100%.*limited by day, \d+ (h|min)/)
    await expect
      .poll(() => page.locator('.tiles').textContent())
      .toMatch(/[1-9]\d*\/s requests, one process/)
  })

  it('counts what needs attention in one line of every other view, which names the worst and opens', async () => {
    await at('/bans')
    const attention = page.locator('#attention')
    await expect
      .poll(() => attention.locator('summary').textContent())
      .toMatch(/■ 1 fault ▲ \d warnings? Backend http:\/\/127.0.0.1/)
    const line = attention.getByText(/bolt.*day/).first()
    expect(await line.isVisible()).toBe(false)
    await attention.locator('summary').click()
    expect(await line.isVisible()).toBe(true)
  })

  it('finds a key, a backend, a route and a request by one search', async () => {
    const refused = await gateway.call('tg_bolt_1')
    const places = [
      ['acme-2', 'Clients'],
      ['127.0.0.1', 'System'],
      ['getPet', 'Routes'],
      [refused.headers.get('x-request-id') ?? '', 'Explain'],
    ] as const
    for (const [text, name] of places) {
      await page.getByRole('searchbox', { name: /^Search/ }).fill(text)
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { level: 1, name }).waitFor()
    }
    await expect.poll(() => page.locator('main').textContent()).toContain('rate_limit_exceeded')
  })

  it('asks again by itself for what the gateway explains in a moment', async () => {
    await at('/explain')
    const query = { method: 'GET', target: '/v1/pets' }
    const ask = () => askAdmin(gateway.adminOrigin, 'POST /api/explain', query)
    const codes: number[] = []
    while (!codes.includes(429) || !codes.includes(200))
      codes.push(...(await Promise.all(times(50, async () => (await ask()).status))))
    await page
      .getByRole('table', { name: 'Latest refusals' })
      .getByRole('link', { name: /^Explain/ })
      .first()
      .click()
    await expect.poll(() => page.locator('main').textContent()).toContain('Charged: ')
  })

  it('counts a client that calls what is deprecated once, however many user agents it has', async () => {
    const headers = { 'user-agent': 'sdk/2' }
    await gateway.call('tg_acme_1', '/v1/pets/1', { headers })
    await at('/routes')
    const rows = (table: string, name: RegExp) =>
      page.getByRole('table', { name: table, exact: true }).getByRole('row', { name })
    await expect.poll(() => rows('Callers of deprecated routes', /acme/).count()).toBe(2)
    expect(await page.getByText(/of this gateway alone/i).count()).toBe(2)
    const lost = rows('Routes', /lost/).getByRole('cell')
    await expect.poll(() => lost.nth(1).textContent()).toMatch(/▲ matches \/v1\/v1\/lost only/)
    const open = page.locator('#attention').getByText('Open', { exact: true })
    expect(await open.last().getAttribute('href')).toBe('#/config')
    const cells = rows('Routes', /getPet/).getByRole('cell')
    await expect.poll(() => cells.last().textContent()).toBe('1')
    await at('/')
  })

  it('says of the client until when, and of each refusal by what', async () => {
    await at('/clients/bolt')
    await expect
      .poll(() => page.locator('.says').textContent())
      .toMatch(/Limited by day until .* 00:00Z/)
    const refusals = page.getByRole('table', { name: 'Recent refusals' })
    await expect
      .poll(() => refusals.textContent())
      .toMatch(/day 20\/20429\d+.*GET \/v1\/pets, key bolt-1/)
    await expect.poll(() => page.getByRole('img', { name: /Admitted per day/ }).count()).toBe(1)
  })

  it('explains a refusal with the words of the command line, and a request that nobody has sent', async () => {
    await at('/clients/bolt')
    await page
      .getByRole('link', { name: /^Explain / })
      .first()
      .click()
    const main = page.locator('main')
    await expect
      .poll(() => main.textContent())
      .toMatch(/429 rate_limit_exceeded by day, Retry-After/)
    const id = await page.getByLabel('Request id').inputValue()
    const said = await typed(['explain', id, '--admin', gateway.adminOrigin], {
      columns: 300,
      env: { NO_COLOR: '1' },
    })
    expect([said.code, said.stderr]).toEqual([0, ''])
    const text = await main.innerText()
    const spoken = said.stdout.split(/\s+/).filter((word) => !/^[*=–]?$/.test(word))
    for (const word of spoken) expect(text).toContain(word)
    await page.getByLabel('Target').fill('/v1/none')
    await page.getByLabel('Key id').fill('acme-2')
    await page.getByLabel('Target').press('Enter')
    await expect.poll(() => main.textContent()).toMatch(/429 api_key_banned.*4711/)
    expect(page.url()).toMatch(/explain\?.*target=%2Fv1%2Fnone&key=acme-2$/)
    await page.getByLabel('Key id').fill('nobody-1')
    await page.getByLabel('Target').press('Enter')
    await expect
      .poll(() => page.getByRole('alert').allTextContents())
      .toContainEqual(expect.stringMatching(/No client.*has a key of this id/))
  })

  it('has no view where an address is malformed, and shows no other', async () => {
    const lost = await open()
    await lost.goto(`${gateway.adminOrigin}/#/clients`)
    await lost.evaluate('location.hash = "#/clients/%E0%A4%A"')
    await lost.getByRole('heading', { name: 'Nothing here' }).waitFor()
    await lost.close()
  })

  it('lifts a ban in three clicks, and bans again for the rest', async () => {
    await at('/bans?q=nobody')
    await expect
      .poll(() => page.locator('main').textContent())
      .toMatch(/0 of 1 key banned now[^]*No ban has this in its key or client\./)
    await at('/')
    expect(await code('tg_acme_2')).toBe('api_key_banned')
    await page.getByRole('link', { name: /^Bans/ }).click()
    await press('Lift ban of acme-2')
    const dialog = page.getByRole('dialog')
    expect(await dialog.textContent()).toMatch(/abuse report 4711.*left of it/)
    await dialog.getByRole('button', { name: 'Lift ban of acme-2' }).click()
    await page.getByText('The ban of acme-2 is lifted.').waitFor()
    expect(await code('tg_acme_2')).toBeUndefined()
    await expect.poll(() => page.locator('main').textContent()).toContain('No key is banned')
    await press('Ban again for the rest')
    await eventually('it is banned', async () => (await code('tg_acme_2')) === 'api_key_banned')
    await expect
      .poll(() => page.getByRole('table', { name: 'Bans' }).textContent())
      .toMatch(/operator.*in (\d\d min|1 h).*4711/)
  })

  it('bans a key for a reason, with the keyboard alone', async () => {
    await at('/')
    const focused = (): Promise<unknown> => page.evaluate('document.activeElement.textContent')
    const tabTo = async (text: string): Promise<void> => {
      for (let steps = 0; (await focused()) !== text; steps++) {
        expect(steps, text).toBeLessThan(60)
        await page.keyboard.press('Tab')
      }
    }
    await page.keyboard.press('g')
    await page.keyboard.press('c')
    await page.getByRole('link', { name: 'acme', exact: true }).waitFor()
    expect(await focused()).toBe('Clients')
    await tabTo('acme')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Ban acme-1' }).waitFor()
    expect([await focused(), await page.title()]).toEqual(['acme', 'acme · Tollgate'])
    await tabTo('Ban')
    await page.keyboard.press('Enter')
    expect(await focused()).toBe('Cancel')
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.type('it floods us')
    await page.keyboard.press('Enter')
    await page.getByText('Banned: acme-1.').waitFor()
    await eventually('it is banned', async () => (await code('tg_acme_1')) === 'api_key_banned')
    await press(/^Lift \(strikes/)
    await eventually('it is let in', async () => (await code('tg_acme_1')) === undefined)
  })

  it('resets what a client has used, once its id is typed', async () => {
    const answered = Promise.withResolvers<void>()
    await page.route('**/api/clients/bolt', async (route) => {
      await answered.promise
      await route.continue()
    })
    await at('/clients/bolt')
    // Of a client that is not known yet nothing can be reset.
    expect(await page.getByRole('button', { name: 'Reset usage' }).isDisabled()).toBe(true)
    answered.resolve()
    await press('Reset usage')
    const act = page.getByRole('button', { name: 'Reset usage of bolt' })
    expect(await act.isDisabled()).toBe(true)
    await page.getByLabel('Type bolt to confirm').fill('bolt')
    await act.click()
    await page.getByText(/Usage of bolt: minute \d+ to 0, day \d+ to 0/).waitFor()
    await page.unroute('**/api/clients/bolt')
  })

  it('shows what a reload would take away, and takes just that', async () => {
    await at('/config')
    await page.locator('summary', { hasText: 'upstream' }).click()
    const shown = page.getByRole('region', { name: 'upstream' })
    expect(await shown.textContent()).toMatch(/^urls:\n {2}- http:\/\/127\.0\.0\.1:\d+\n/)
    const before = readFileSync(config, 'utf8')
    writeFileSync(
      config,
      before
        .replace('perMinute: 5000, perDay: 1000000', 'perMinute: 1, perDay: 1')
        .replace('strikes: 1000000', 'strikes: 900000'),
    )
    gateway.outdate()
    const differs = page.locator('p.warn:not(.line)', { hasText: /on disk differs from revision/ })
    await differs.waitFor()
    await press('Compare with the files')
    await page.getByText('▲ 1 client is at or above its new limit now, and refused').waitFor()
    await press('Cancel')
    const compared = page.getByRole('region', { name: 'bans, compared' })
    expect(await compared.textContent()).toMatch(/^- strikes: 1000000\n\+ strikes: 900000\n {2}\w/m)
    expect(await axeFaults(page)).toEqual([])
    writeFileSync(config, before.replace(/^ {2}- \{ id: oldco.*\n/m, ''))
    await press('Compare with the files')
    const dialog = page.getByRole('dialog')
    await dialog.waitFor()
    expect(await dialog.textContent()).toMatch(/- 1 client: oldco\n- 1 key: oldco-1 \(oldco\)/)
    expect(await axeFaults(page)).toEqual([])
    await press('Reload: remove 1 client, 1 key')
    await page.getByText(/Revision \w+ is in force/).waitFor()
    await differs.waitFor({ state: 'detached' })
    expect(await code('tg_oldco_1')).toBe('invalid_api_key')
    writeFileSync(config, 'routes: 1\n')
    await press('Compare with the files')
    await expect
      .poll(() => page.getByRole('alert').allTextContents())
      .toContainEqual(expect.stringMatching(/422 config_refused.*gateway\.yaml/))
    writeFileSync(config, before)
  })

  it('has no fault that axe finds in any view or dialog, has none in the dark where most is shown, and on a phone scrolls nothing sideways', async () => {
    const other = await open()
    // It would draw a second each, too.
    await page.goto('about:blank')
    const look = async (colorScheme: 'light' | 'dark', width = 1200, height = 800) => {
      await other.emulateMedia({ colorScheme })
      await other.setViewportSize({ width, height })
    }
    const expectFaultless = async (what: string, isFull = true): Promise<void> => {
      expect(await axeFaults(other), what).toEqual([])
      await look('dark', 320, 640)
      const sideways = 'document.documentElement.scrollWidth - innerWidth'
      await expect.poll(() => other.evaluate(sideways), { message: `${what}, phone` }).toBe(0)
      // It differs by its colours, and by what a phone lays out otherwise or hides.
      if (isFull) expect(await axeFaults(other), `${what}, dark, phone`).toEqual([])
      await look('light')
    }
    await look('light')
    for (const view of views) {
      await at(view, other)
      await expect.poll(() => other.locator('.loading:visible').count(), { message: view }).toBe(0)
      await expectFaultless(view, view === '/' || view.startsWith('/explain'))
    }
    await at('/clients/acme', other)
    for (const name of ['Ban acme-1', 'Reset usage']) {
      await other.getByRole('button', { name, exact: true }).click()
      await expectFaultless(name, name === 'Reset usage')
      await other.keyboard.press('Escape')
    }
    await other.keyboard.press('?')
    await expectFaultless('help', false)
    await other.close()
  })

  it('moves no row that has the focus, but its values', async () => {
    await at('/')
    const script = `(async () => {
      const [{ Table }, { html, render }] = await Promise.all([import('./admin/page/table.js'), import('./admin/page/ui.js')])
      const columns = [
        ['Id', ({ id }) => html\`<a href="#/">\${id}</a>\`],
        ['Value', ({ value }) => value],
      ]
      const box = document.body.appendChild(document.createElement('div'))
      const update = (...names) => {
        const rows = names.map((name) => ({ id: name[0], value: name[1] }))
        const idOf = ({ id }) => id
        render(html\`<\${Table} caption="t" columns=\${columns} idOf=\${idOf} empty="" rows=\${rows} />\`, box)
      }
      const texts = () => [...box.querySelectorAll('tbody tr')].map((row) => row.textContent).join()
      update('a1', 'b1', 'c1')
      box.querySelector('a').focus()
      update('c2', 'b2', 'd2')
      const held = [texts(), box.querySelector('.reorder').textContent]
      box.querySelector('.reorder').click()
      await new Promise(requestAnimationFrame)
      const seen = [...held, texts(), document.activeElement.textContent]
      render(null, box)
      box.remove()
      return seen
    })()`
    expect(await page.evaluate(script)).toEqual([
      'a1,b2,c2',
      '2 rows would move: Reorder',
      'c2,b2,d2',
      'c',
    ])
  })

  it('asks nothing while it is hidden, and for the overview once when it is seen again', async () => {
    await at('/system')
    await expect.poll(() => page.locator('#state').textContent()).toBe('● live')
    const asked: string[] = []
    page.on('request', (request) => asked.push(new URL(request.url()).pathname))
    const become = (state: string): Promise<unknown> =>
      page.evaluate(
        `Object.defineProperty(document, 'visibilityState', { get: () => '${state}', configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`,
      )
    await become('hidden')
    await page.waitForTimeout(2_500)
    expect(asked).toEqual([])
    await become('visible')
    await expect.poll(() => asked).toContain('/api/events')
    expect(asked.filter((path) => path === '/api/overview')).toHaveLength(1)
  })

  it('asks for a token where there is one, and says when it is wrong', async () => {
    const admin = `admin: { listen: "127.0.0.1:0", tokenSha256: ${sha256('right')} }`
    const upstreams = ['http://127.0.0.1:1']
    const guarded = await startTestGateway({ upstreams, blocks: { admin } })
    const other = await open()
    await other.goto(`http://127.0.0.1:${guarded.adminPort}/#/config`)
    // Whoever cancels is not asked again and again.
    await press('Cancel', other)
    await press('Retry', other)
    await other.locator('input[name=token]').fill('wrong')
    await press('Use this token', other)
    await other.getByText('The token was refused.').waitFor()
    expect(await axeFaults(other)).toEqual([])
    await other.locator('input[name=token]').fill('right')
    await press('Use this token', other)
    await other.getByText(/^Revision [0-9a-f]+/).waitFor()
    expect(
      await other.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage })'),
    ).not.toContain('right')
    await other.close()
    await guarded.stop()
  })

  it('says within seconds that the gateway is gone, and leaves a gap', async () => {
    await at('/')
    await expect.poll(() => page.locator('#state').textContent()).toBe('● live')
    await gateway.stop()
    await page.getByText(/No live data since \d\d:\d\d:\d\dZ/).waitFor()
    expect(await axeFaults(page)).toEqual([])
    const latest = `import('./admin/page/live.js').then(({ columns }) => columns.requests.slice(-2))`
    await expect.poll(() => page.evaluate(latest)).toEqual([null, null])
  })

  it('has broken no rule of its own security policy, and no script of it has failed', () => {
    expect(violations).toEqual([])
  })
})
