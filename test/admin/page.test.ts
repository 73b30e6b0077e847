/** The files of the operators' page as they are served, and how it writes numbers and times. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { windows } from '../../src/config/time.ts'
import { libraries, pageFiles } from '../../src/admin/page-assets.ts'
import { bytes, clock, compact, count, duration, latency } from '../../src/insight/format.js'
import { limitsText, percent, plural, rate, relative, usage } from '../../src/insight/format.js'
import { startTestGateway } from '../support/gateway.ts'
import { words } from '../support/words.ts'

const root = join(import.meta.dirname, '../..')
const inTree = (file: string): string => readFileSync(join(root, file), 'utf8')

describe('the files of the page', async () => {
  const token = `admin: { listen: "127.0.0.1:0", tokenSha256: "${'a'.repeat(64)}" }`
  const upstreams = ['http://127.0.0.1:1']
  const { adminPort } = await startTestGateway({ upstreams, blocks: { admin: token } })
  const origin = `http://127.0.0.1:${adminPort}`
  const served = new Map<string, string>()
  let sentBytes = 0
  for (const path of pageFiles.keys()) {
    const answer = await fetch(origin + path)
    expect(answer.status, path).toBe(200)
    expect(answer.headers.get('content-encoding'), path).toBe('gzip')
    sentBytes += Number(answer.headers.get('content-length'))
    served.set(path, await answer.text())
  }

  it('are served without a token, which the data needs, and may use nothing but what is served here', async () => {
    expect((await fetch(`${origin}/api/config`)).status).toBe(401)
    const { headers } = await fetch(origin)
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      'x-content-type-options': 'nosniff',
      'cross-origin-resource-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-cache',
    })
  })

  it('are asked about again, and sent again only when they have changed', async () => {
    const etag = (await fetch(origin)).headers.get('etag') ?? ''
    const known = await fetch(origin, { headers: { 'if-none-match': etag } })
    expect([known.status, await known.text()]).toEqual([304, ''])
    expect((await fetch(origin, { headers: { 'if-none-match': '"old"' } })).status).toBe(200)
    const plain = await fetch(origin, { headers: { 'accept-encoding': 'identity' } })
    expect(plain.headers.get('content-encoding')).toBeNull()
    expect(plain.headers.get('etag')).not.toBe(etag)
    expect(await plain.text()).toBe(served.get('/'))
  })

  it('name one another so that a proxy may show the page below a path', () => {
    const named = [...served].flatMap(([path, text]) =>
      Array.from(text.matchAll(/\bfrom ?'(\.[^']+)'/g), ([, to = '']) =>
        new URL(to, `http://x/gw${path}`).pathname.replace('/gw', ''),
      ),
    )
    expect(named.length).toBeGreaterThan(50)
    expect(named.filter((path) => !served.has(path))).toEqual([])
  })

  it('are read only, and no others are served from their folder', async () => {
    const posted = await fetch(`${origin}/admin/page/main.js`, { method: 'POST' })
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    for (const path of words('tsconfig.json page/main.ts page/../answers.ts page/ page/index.html'))
      expect((await fetch(`${origin}/admin/${path}`)).status, path).toBe(404)
  })

  it('weigh less than 80 KiB as sent', () => {
    expect(sentBytes).toBeGreaterThan(10 * 1024)
    expect(sentBytes).toBeLessThan(80 * 1024)
    const isOwn = (path: string) =>
      path.endsWith('.js') && !(path.replace('/admin/page/', '') in libraries)
    const own = [...served].filter(([path]) => isOwn(path)).map(([, text]) => text)
    expect(Buffer.byteLength(own.join(''))).toBeLessThan(91 * 1024)
  })

  it('have libraries just as their packages have them, but for the addresses of what they import', () => {
    for (const [name, file] of Object.entries(libraries))
      expect(served.get(`/admin/page/${name}`), name).toBe(
        readFileSync(file(), 'utf8').replaceAll('from"preact"', 'from"./preact.js"'),
      )
    for (const [path, text] of served)
      if (path.endsWith('.js')) expect(text, path).not.toMatch(/\bfrom ?['"]\w/)
  })

  it('are sent without comments and indentation, and with each line that does something', () => {
    const source = inTree('src/insight/format.js')
    const sent = served.get('/insight/format.js') ?? ''
    expect(sent).not.toMatch(/\/\*|^\s/m)
    const doing = source
      .split('\n')
      .filter((line) => /^\s*(?:export|const|let|return|if)\b/.test(line))
    expect(doing.length).toBeGreaterThan(20)
    for (const line of doing) expect(sent).toContain(line.trim())
  })
})

const now = Date.parse('2026-11-03T14:07:31.400Z')
const at = (iso: string) => Date.parse(iso)

describe('what the page writes', () => {
  it.each<[string, string]>([
    [count(9204), '9,204'],
    [count(null), '–'],
    [compact(9_999_999), '9,999,999'],
    [compact(12_400_000), '12.4M'],
    [rate(3.42), '3.4'],
    [rate(9.97), '10'],
    [rate(0.01), '<0.1'],
    [percent(0), '0%'],
    [percent(0.004), '<1%'],
    [percent(0.9999), '99%'],
    [percent(1.25), '125%'],
    [plural(1, 'row'), '1 row'],
    [duration(35_549_000), '9 h 52 min'],
    [duration(86_400_000 + 60_000), '1 d'],
    [duration(391_000), '6 min 31 s'],
    [duration(391_000, 1), '6 min'],
    [duration(8.24), '8.2 ms'],
    [duration(0), '0 ms'],
    [latency(0.86), '0.86 ms'],
    [latency(1_234), '1.2 s'],
    [bytes(512), '512 B'],
    [bytes(1_610_612_736), '1.5 GiB'],
    [clock(at('2026-11-03T14:02:01.9Z'), now), '14:02:01Z'],
    [clock(at('2026-11-02T14:07:31Z'), now), '2026-11-02 14:07Z'],
    [relative(at('2026-11-03T14:14:02Z'), now), 'in 6 min 30 s'],
    [relative(now, now), 'now'],
    [usage({ used: 10_000, limit: 10_000 }, 'day'), '10,000/10,000'],
    [usage({ used: 3, limit: windows[0].most }, 'minute'), '3/unlimited'],
    [limitsText({ perMinute: 300, perDay: windows[1].most }), '300/min, unlimited/day'],
    [usage(null, 'day'), '–'],
  ])('is %s', (written, expected) => {
    expect(written).toBe(expected)
  })
})
