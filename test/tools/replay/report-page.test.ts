/** The page of a replay in a real browser, opened from disk. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reportPage } from '../../../src/tools/replay/html/page.ts'
import type { Outcome, ReplayedClient, ReplayReport } from '../../../src/tools/replay/report.ts'
import { outcomeOf, plansOf } from '../../../src/tools/replay/counts.ts'
import { axeFaults, openBrowser } from '../../support/browser.ts'
import { temporaryFolder } from '../../support/processes.ts'

const HOSTILE = [
  '</script><script>document.title = "owned"</script>',
  '"><img src=x onerror=alert(1)>',
  "'+alert(1)+'",
  '=HYPERLINK("http://evil.test")',
  '<!--<script>',
  'abc\u202egnp.exe',
  '\u0000\u001b[31m',
  '\ud800',
]

const FROM = '2026-11-02T00:00:00Z'
const DAY_MS = 86_400_000
const at = (second: number): string => new Date(Date.parse(FROM) + second * 1_000).toISOString()
const outcome = (admitted: number, minute: number, day: number, ban: number): Outcome => ({
  admitted,
  refused: { minute, day, ban },
})
/** clients: how many; the later ones are refused nothing. */
function madeReport(
  clients: number,
  { isCompared, steps }: { isCompared: boolean; steps: number },
): ReplayReport {
  const all = Array.from({ length: clients }, (_, nth): ReplayedClient => {
    const worse = nth < 41 ? 41 - nth : 0
    const requests = 109_310 - nth * 50
    const before = outcome(requests - worse * 227, worse * 120, worse * 107, 0)
    const after = outcome(requests - worse * 714, worse * 300, worse * 400, worse * 14)
    return {
      client: HOSTILE[nth - 3] ?? `client-${nth}`,
      plan: ['business', 'pro', 'free'][nth % 3] ?? '',
      requests,
      ...(isCompared || worse > 0 ? after : outcome(requests, 0, 0, 0)),
      first: {
        minute: worse > 0 ? at(3_600 * (nth % 20) + 7) : null,
        day: worse > 0 ? at(69_127 + nth) : null,
        ban: null,
      },
      ...(isCompared && { before }),
      peak: { minute: 300 + nth, day: requests },
      suggest: nth % 4 === 0 ? null : 'business',
    }
  })
  const wave = (height: number, turn: number): number[] =>
    Array.from({ length: steps }, (_, step) =>
      Math.max(0, Math.round(height * Math.sin((step / steps) * 9 + turn) + height / 2)),
    )
  const requests = all.reduce((total, each) => total + each.requests, 0)
  return {
    requests,
    ...outcomeOf(all, isCompared),
    notJudged: 312,
    unknownClients: { requests: 17, names: HOSTILE },
    unreadable: 3,
    from: FROM,
    to: at(86_399),
    revision: '8b01e4',
    ...(isCompared && { against: '3f9c21' }),
    clients: all,
    plans: plansOf(all, isCompared),
    overTime: {
      from: FROM,
      stepSeconds: Math.round(DAY_MS / 1_000 / steps),
      admitted: wave(7_000, 1),
      minute: wave(60, 0),
      day: wave(40, 4),
      ban: wave(3, 2),
      ...(isCompared && { before: { minute: wave(40, 0), day: wave(20, 4), ban: wave(2, 2) } }),
    },
    log: {
      same: requests - 12,
      differs: { limits: 9, strikes: 3, missing: 0, unexplained: 0 },
      examples: [
        { cause: 'limits', at: at(71), client: 'client-0', logged: 'minute', replayed: 'admitted' },
        {
          cause: 'strikes',
          at: at(72),
          client: HOSTILE[0] ?? '',
          logged: 'ban',
          replayed: 'minute',
        },
      ],
    },
    suggestions: {
      share: 0.01,
      until: null,
      plans: [
        {
          plan: 'pro',
          limits: { perMinute: 300, perDay: 10_000 },
          clients: 20,
          requests: 700_000,
          peaks: {
            minute: { p50: 12, p95: 122, p99: 260 },
            day: { p50: 812, p95: 4_102, p99: 9_931 },
          },
          atShare: { perMinute: 152, perDay: 5_066, refused: 6_900, share: 6_900 / 700_000 },
        },
      ],
    },
    read: {
      files: ['access.log.gz', HOSTILE[0] ?? ''],
      readBytes: 1,
      totalBytes: 1,
      lines: requests + 332,
      otherLines: 2,
      unreadable: 3,
      firstUnreadable: { file: 'access.log.gz', line: 88_120, why: `not JSON: ${HOSTILE[1]}` },
      late: 0,
      notesDropped: 0,
      cutOff: ['access.log.gz'],
      revisions: ['3f9c21'],
    },
  }
}

const titles = {
  config: 'new.yaml',
  against: 'old.yaml',
  version: '0.1.0',
  madeAtMs: Date.parse('2026-11-03T14:07:31Z'),
  remarks: ['3 unreadable; line 88120 of access.log.gz', ...HOSTILE],
}

describe('the page of a replay', () => {
  const folder = temporaryFolder()
  let browser: Browser
  const violations: string[] = []
  const asked: string[] = []

  const open = async (
    name: string,
    report: ReplayReport,
    options: Parameters<Browser['newPage']>[0] = {},
  ): Promise<Page> => {
    const path = join(folder, `${name}.html`)
    writeFileSync(path, reportPage(report, titles))
    const page = await browser.newPage({ viewport: { width: 1200, height: 800 }, ...options })
    page.on('console', (line) => violations.push(line.text()))
    page.on('pageerror', (error) => violations.push(String(error)))
    page.on('request', (request) => asked.push(request.url()))
    await page.goto(pathToFileURL(path).href)
    return page
  }
  const columnOf = (page: Page, nth: number): Promise<string[]> =>
    page.locator(`#clients tbody tr:not([hidden]) td:nth-child(${nth})`).allTextContents()

  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser.close())

  it('has no fault that axe finds: light, dark, on paper, and on a phone, where nothing scrolls sideways', async () => {
    const page = await open('small', madeReport(60, { isCompared: true, steps: 96 }))
    for (const [width, colorScheme, media] of [
      [1200, 'light', 'screen'],
      [1200, 'dark', 'screen'],
      [768, 'light', 'screen'],
      [703, 'dark', 'print'],
      [320, 'light', 'screen'],
    ] as const) {
      await page.emulateMedia({ colorScheme, media })
      await page.setViewportSize({ width, height: 800 })
      const look = `${width} ${colorScheme} ${media}`
      expect(await axeFaults(page), look).toEqual([])
      const sideways = 'document.documentElement.scrollWidth - innerWidth'
      expect(await page.evaluate(sideways), look).toBe(0)
    }
    await page.close()
  })

  it('says first who is worse off, and shows old and new of each window over time', async () => {
    const page = await open('against', madeReport(60, { isCompared: true, steps: 96 }))
    expect(await page.title()).toBe('Replay of new.yaml · Tollgate')
    expect(await page.locator('h1').textContent()).toBe('Replay of new.yaml against old.yaml')
    expect(await page.locator('.says').textContent()).toMatch(
      /^41 of 60 clients are refused more: 419,307 requests \(6\.\d%\)\.$/,
    )
    const outcome = await page.getByRole('table', { name: 'Outcome' }).textContent()
    expect(outcome).toMatch(/refused by ban012,054\+12,054/)
    const limits = page.getByRole('table', { name: 'Limits that would fit' })
    expect(await limits.textContent()).toMatch(/proday208124,1029,93110,0005,0660\.99%/)
    const plots = page.locator('#charts .plot canvas')
    expect(await plots.count()).toBe(3)
    const sentences = await page
      .locator('#charts .plot')
      .evaluateAll((all) => all.map((each) => (each as { ariaLabel?: string }).ariaLabel))
    expect(sentences[0]).toMatch(
      /^Refused by minute over time: old in all [\d,]+, peak 60 at 2026-11-02 \d\d:\d\dZ; new in all/,
    )
    await page.close()
  })

  it('is read and sorted with the keyboard alone, and searched, and saved as it is shown', async () => {
    const page = await open('keys', madeReport(60, { isCompared: false, steps: 96 }))
    const focused = (): Promise<unknown> => page.evaluate('document.activeElement.textContent')
    const tabTo = async (text: string): Promise<void> => {
      for (let steps = 0; (await focused()) !== text; steps++) {
        expect(steps, text).toBeLessThan(40)
        await page.keyboard.press('Tab')
      }
    }
    await page.locator('.plot').first().focus()
    await page.keyboard.press('ArrowLeft')
    expect(await page.locator('.chart [aria-live]').first().textContent()).toMatch(
      /^2026-11-02 23:30Z: admitted [\d,]+$/,
    )
    await tabTo('Requests')
    await page.keyboard.press('Enter')
    const sorted = page.locator('th[aria-sort]')
    expect([await sorted.textContent(), await sorted.getAttribute('aria-sort')]).toEqual([
      'Requests',
      'descending',
    ])
    await page.keyboard.press('Enter')
    expect(await sorted.getAttribute('aria-sort')).toBe('ascending')
    expect((await columnOf(page, 1))[0]).toBe('client-59')
    await page.getByLabel('Filter').fill('CLIENT-1')
    await expect.poll(() => page.getByRole('status').textContent()).toBe('10 of 60 clients')
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'CSV' }).click()
    const lines = (await text(await (await saved).createReadStream())).split('\r\n')
    expect(lines[0]).toBe(
      'Client,Plan,Requests,Refused,Minute,Day,Ban,First,By,Peak minute,Peak day,Suggest',
    )
    expect(lines[1]).toMatch(
      /^client-19,pro,108360,15708,6600,8800,308,2026-11-02T19:00:07\.000Z,minute,/,
    )
    expect(lines).toHaveLength(12)
    await page.close()
  })

  it('shows names as they are, whatever they hold, and what cannot be seen by its number', async () => {
    const page = await open('hostile', madeReport(60, { isCompared: true, steps: 96 }))
    const shown = await columnOf(page, 1)
    expect(shown.slice(3, 11)).toEqual([
      ...HOSTILE.slice(0, 5),
      String.raw`abc\u{202e}gnp.exe`,
      String.raw`\u{0}\u{1b}[31m`,
      String.raw`\u{d800}`,
    ])
    expect(await page.locator('img, main script').count()).toBe(0)
    expect(await page.title()).not.toBe('owned')
    const download = page.waitForEvent('download')
    await page.getByRole('button', { name: 'CSV' }).click()
    expect(await text(await (await download).createReadStream())).toContain('"\'=HYPERLINK(""http')
    await page.close()
  })

  it('is of 2 MiB at most with 20,000 clients of the longest names, of which it shows the first', async () => {
    const report = madeReport(20_000, { isCompared: true, steps: 2_000 })
    const clients = report.clients.map((each) => ({ ...each, client: '"'.repeat(128) }))
    const size = Buffer.byteLength(reportPage({ ...report, clients }, titles))
    expect(size).toBeLessThan(2 * 1024 * 1024)
    const page = await open('large', report)
    expect(await page.locator('#clients tbody tr').count()).toBe(1_000)
    expect(await page.getByText('The first 1,000 of 20,000 clients').count()).toBe(1)
    await page.close()
  })

  it('asks for nothing but itself, breaks no rule of its own policy, and no script of it fails', () => {
    expect(violations).toEqual([])
    expect(asked.filter((url) => !/^(?:file:|blob:)/.test(url))).toEqual([])
    expect(asked.length).toBeGreaterThan(4)
  })
})
