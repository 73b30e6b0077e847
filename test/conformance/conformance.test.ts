/**
 * The suite against gateways that do one thing wrong, one that does nothing wrong, and Tollgate. All at once: they share
 * the real minutes that are waited for.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rules } from '../../src/conformance/rules.ts'
import { runSuite, type Report } from '../../src/conformance/suite.ts'
import {
  clientsBlock,
  configFile,
  endAll,
  gatewayProcess,
  rawBackend,
  redisServer,
  times,
  tollgate,
} from '../process/gateways.ts'
import { typed } from '../support/command-line.ts'
import { answer } from '../support/raw-backend.ts'
import { makeCertificates } from '../support/redis-tls.ts'
import { temporaryFile, temporaryFolder, type Finished } from '../support/processes.ts'
import { defects, startBadGateway, type Defect, type Manner } from './bad-gateway.ts'

const keys = times(20, (at) => `tg_conformance_${at}_0123456789`)
const LONG_MS = 235_000
/** Of thirty. */
const MOST_CHECKS = 22
const limits = { perMinute: 20, perDay: 1000 }
/** The day ends in the second minute. */
const smallDay = { perMinute: 20, perDay: 30 }
const planted = Object.entries(defects) as [Defect, string][]
const everybody: readonly [Defect | undefined, string][] = [[undefined, ''], ...planted]

interface Outcome {
  readonly report: Report
  readonly mostRefusals: number
}

/** Those that tell faults of one group apart; the others are asked for the group of their fault alone. */
const askedForAll = new Set<Defect | undefined>([
  undefined,
  'charges what it refuses',
  'resets ten seconds early',
  'resets four seconds late',
  'lies short with Retry-After',
  'lies long with Retry-After',
  'gives a second window at the edge',
  'admits one too many',
  'admits one too few',
  'admits too many at once',
  'does not charge the day',
  'lies with Remaining',
])
const groupOf = (check: string): string => rules.find(({ name }) => name === check)?.group ?? ''

/** A minute is too short to use it up. */
const SLOW_MS = 3_000

async function judged(
  given: typeof limits,
  only: string[],
  defect?: Defect,
  manner?: Manner,
): Promise<Outcome> {
  const gateway = await startBadGateway(keys, given, defect, manner)
  try {
    const report = await runSuite({ url: gateway.url, path: '/v1/pets', limits: given, keys, only })
    return { report, mostRefusals: gateway.mostRefusals() }
  } finally {
    gateway.close()
  }
}

/** What the suite must name where the day is used up too. */
const namedByDay: readonly [Defect | undefined, string[]][] = [
  [undefined, []],
  ['charges what it refuses', ['refused-free']],
  ['does not charge the day', ['day']],
]
const judgedByDay = async (defect: Defect | undefined): Promise<void> =>
  void badDays.set(defect, await judged(smallDay, ['day', 'refused'], defect))
const isRightByDay = ([defect, checks]: (typeof namedByDay)[number]): boolean =>
  defect === undefined
    ? badDays.get(defect)?.report.checks.every(({ verdict }) => verdict === 'holds') === true
    : checks.every((check) => named(badDays.get(defect)).includes(check))

/** Where the machine did not let it finish in its minutes, it is asked once more, beside fewer others. */
async function judgedAgain(names: readonly (Defect | undefined)[]): Promise<void> {
  const isRight = (defect?: Defect): boolean =>
    defect === undefined
      ? bad.get(defect)?.report.checks.every(({ verdict }) => verdict === 'holds') === true
      : isDeepStrictEqual(named(bad.get(defect)), [defects[defect]])
  await Promise.all(
    names
      .filter((defect) => !isRight(defect))
      .map(async (defect) => bad.set(defect, await judged(limits, [], defect))),
  )
}

/** Where a busy machine holds up the store, nothing is admitted in another way: a check that meets this cannot tell. */
const patient = 'timeout: 110ms, onOutage: closed'
const tollgates: Record<string, (redis: string) => Record<string, string>> = {
  'one worker': () => ({ store: 'store: { file: "" }' }),
  'four workers': () => ({
    store: `store: { file: "", ${patient} }`,
    server: 'server: { listen: "127.0.0.1:0", workers: 4, overload: { lag: 10s } }',
  }),
  Redis: (redis) => ({ store: `store: { redis: "${redis}", ${patient} }` }),
}

/** It has blamed nobody, and there is too much that it could not tell. */
function isUnfinished(name: string): boolean {
  const { code, stdout } = own.get(name) ?? { code: -1, stdout: '' }
  const holding = stdout.match(name === 'Redis' ? /\tholds\t/g : /"holds"/g) ?? []
  return code === 0 && holding.length <= MOST_CHECKS
}

interface Commanded extends Finished {
  readonly page: string
}

const bad = new Map<Defect | undefined, Outcome>()
const badDays = new Map<Defect | undefined, Outcome>()
const own = new Map<string, Commanded>()
let overTls: Commanded
let slow: Outcome
let sliding: Outcome

beforeAll(async () => {
  const backend = await rawBackend({
    respond: ({ method }) => answer(200, method === 'HEAD' ? '' : '[]'),
  })
  const certificates = makeCertificates()
  const keyFile = temporaryFile('keys.txt', `${keys.join('\n')}\n`)
  const clients = clientsBlock(
    keys.map((key, at) => ({ id: `client-${at}`, keys: [key], ...limits })),
  )
  /** Starts Tollgate, and runs the command against it. */
  async function command(blocks: Record<string, string>, args: string[] = []): Promise<Commanded> {
    const { origin } = await gatewayProcess(configFile(backend.url, { clients, ...blocks }))
    const html = join(temporaryFolder(), 'report.html')
    const fixed = ['--target', origin, '--keys', keyFile, '--limits', '20/1000', '--html', html]
    const env = { NODE_EXTRA_CA_CERTS: certificates.ca }
    const { finished } = tollgate(['conformance', ...fixed, ...args], { env })
    return { ...(await finished), page: readFileSync(html, 'utf8') }
  }
  const { cert, key } = certificates.server
  const tls = `server: { listen: "127.0.0.1:0", tls: { cert: ${cert}, key: ${key} } }`
  const { url } = await redisServer()
  const commandOwn = async (name: string): Promise<void> => {
    const args = name === 'Redis' ? [] : ['--json']
    own.set(name, await command(tollgates[name]?.(url) ?? {}, args))
  }
  try {
    await Promise.all([
      ...everybody.map(async ([name, check]) =>
        bad.set(name, await judged(limits, askedForAll.has(name) ? [] : [groupOf(check)], name)),
      ),
      ...namedByDay.map(([defect]) => judgedByDay(defect)),
      ...Object.keys(tollgates).map(commandOwn),
      command({ server: tls }, ['--only', 'responses']).then((done) => (overTls = done)),
      judged(limits, ['admission', 'windows', 'refused', 'headers'], undefined, {
        latencyMs: SLOW_MS,
      }).then((done) => (slow = done)),
      judged(limits, ['refused'], undefined, { slides: true }).then((done) => (sliding = done)),
    ])
    await Promise.all([
      judgedAgain(everybody.map(([name]) => name)),
      ...namedByDay.filter((one) => !isRightByDay(one)).map(([defect]) => judgedByDay(defect)),
      ...Object.keys(tollgates).filter(isUnfinished).map(commandOwn),
    ])
  } finally {
    certificates.remove()
  }
}, 2 * LONG_MS)
afterAll(endAll)

const named = (outcome: Outcome | undefined): string[] =>
  (outcome?.report.checks ?? [])
    .filter(({ verdict }) => verdict === 'broken')
    .map(({ name }) => name)

describe('the suite', () => {
  it('finds nothing at a gateway that does everything right', () => {
    const rows = bad.get(undefined)?.report.checks ?? []
    expect(rows.filter(({ verdict }) => verdict !== 'holds')).toEqual([])
    expect(rows.length).toBeGreaterThan(25)
  })

  it.each(planted)('names a gateway that %s, with %s alone', (defect, check) => {
    expect(named(bad.get(defect)), JSON.stringify(bad.get(defect)?.report.checks)).toEqual([check])
  })

  it('blames no rule at a gateway that is too slow for a minute to be used up', () => {
    const { checks } = slow.report
    expect(named(slow)).toEqual([])
    for (const name of ['exact', 'methods', 'reset', 'remaining'])
      expect(checks.find((check) => check.name === name)?.verdict).toBe('cannot tell')
  })

  it('does not blame a minute that slides on refusals', () => {
    const { checks } = sliding.report
    expect(checks.find(({ name }) => name === 'refused-free')?.seen).toBe('its window slides')
  })

  it('exhausts a day that is small enough', () => {
    const seen = (defect?: Defect): string[] => named(badDays.get(defect))
    expect(seen()).toEqual([])
    expect(seen('charges what it refuses')).toEqual(['refused-free'])
    expect(seen('does not charge the day')).toContain('day')
    const row = badDays.get(undefined)?.report.checks.find(({ name }) => name === 'day')
    expect(row).toMatchObject({ verdict: 'holds', seen: '30 of 30 admitted in two minutes' })
  })

  it('is over in less than four minutes, and no key is refused more than ten times', () => {
    for (const { report, mostRefusals } of [...bad.values(), ...badDays.values()]) {
      expect(report.seconds).toBeLessThan(240)
      expect(mostRefusals).toBeLessThanOrEqual(10)
    }
  })
})

describe('tollgate conformance', () => {
  it.each(['one worker', 'four workers'])('finds nothing at Tollgate with %s', (name) => {
    const { code, stdout, stderr } = own.get(name) ?? { code: -1, stdout: '{}', stderr: '' }
    const { checks, ...report } = JSON.parse(stdout) as Report
    expect(checks.filter(({ verdict }) => verdict === 'broken')).toEqual([])
    const holding = checks.filter(({ verdict }) => verdict === 'holds')
    expect(holding.length, stdout).toBeGreaterThan(MOST_CHECKS)
    expect(report).toMatchObject({ limits, requests: expect.any(Number) })
    expect([code, stderr]).toEqual([0, expect.stringContaining('up to three minutes')])
  })

  it('finds nothing at Tollgate on Redis; in a pipe each check is a line', () => {
    const { code, stdout } = own.get('Redis') ?? { code: -1, stdout: '' }
    const rows = stdout.trimEnd().split('\n')
    expect(rows.filter((line) => /^[\w-]+\tbroken\t/.test(line))).toEqual([])
    const holding = rows.filter((line) => /^[\w-]+\tholds\t/.test(line))
    expect([code, holding.length > MOST_CHECKS], stdout).toEqual([0, true])
  })

  it('writes a page that needs nothing else', () => {
    const { page } = own.get('Redis') ?? { page: '' }
    expect(page).toContain("default-src 'none'")
    expect(page).not.toMatch(/<script|src=|href=|@import/)
    expect(page.match(/<tr><td>/g)?.length).toBeGreaterThan(25)
    expect(page.length).toBeLessThan(20_000)
  })

  it('tells what it has found even where its page cannot be written', async () => {
    const gateway = await startBadGateway(keys, limits)
    const file = temporaryFile('keys.txt', keys.join('\n'))
    const args = `--target ${gateway.url.origin} --keys ${file} --limits 20/1000 --only isolation`
    const html = ['--html', '/nowhere/report.html']
    const { code, stdout, stderr } = await typed(['conformance', ...args.split(' '), ...html])
    gateway.close()
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^isolation\tholds/)])
    expect(stderr).toContain('cannot write /nowhere/report.html')
  })

  it('speaks HTTPS', () => {
    expect([overTls.code, overTls.stdout]).toEqual([0, expect.stringMatching(/^on-401\tholds/m)])
  })
})
