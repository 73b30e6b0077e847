/** What docs/replay.md has one type, on a log of others. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { ReplayReport } from '../../src/tools/replay/report.ts'
import { typed } from '../support/command-line.ts'
import { configText, sha256 } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'

const FROM = Date.parse('2026-11-02T00:00:00Z')
const configOf = (plans: string): string => {
  const client = (id: string) =>
    `  - { id: ${id}, plan: free, keys: [{ id: ${id}-1, sha256: ${sha256(id)} }] }`
  const clients = `clients:\n${['acme', 'bolt', 'calm'].map(client).join('\n')}`
  return configText({ upstreams: ['http://127.0.0.1:1'], blocks: { plans, clients } })
}
const plansOf = (perMinute: number): string =>
  `plans: { free: { perMinute: ${perMinute}, perDay: 1000 }, pro: { perMinute: 50, perDay: 5000 } }`
/** Of acme 12 in each of 60 minutes, of bolt 60, of calm 2. */
const users = Object.entries({ acme: 12, bolt: 60, calm: 2 })
const lines = Array.from({ length: 60 }, (_, minute) =>
  users.flatMap(([user, many]) =>
    Array.from({ length: many }, (_, nth) => {
      const time = new Date(FROM + minute * 60_000 + nth).toISOString()
      return JSON.stringify({ user, time, status: 200 })
    }),
  ),
).flat()
const fields = ['--client-field', 'user', '--time-field', 'time', '--status-field', 'status']
const files: Record<string, string> = {
  'gateway.yaml': temporaryFile('gateway.yaml', configOf(plansOf(20))),
  'old.yaml': temporaryFile('old.yaml', configOf(plansOf(20))),
  'new.yaml': temporaryFile('new.yaml', configOf(plansOf(10))),
  'access.log': temporaryFile('access.log', `${lines.join('\n')}\n`),
  'report.html': join(temporaryFolder(), 'report.html'),
}
const page = readFileSync(join(import.meta.dirname, '../../docs/replay.md'), 'utf8')
const commands = Array.from(page.matchAll(/^\$ tollgate (.*)$/gm), ([, command = '']) => command)
const run = (command: string, options: Parameters<typeof typed>[1] = {}) =>
  typed([...command.split(' ').map((word) => files[word] ?? word), ...fields], {
    ...options,
    env: { NO_COLOR: '1' },
  })

describe('docs/replay.md', () => {
  it.each(commands)('has a command that works: %s', async (command) => {
    expect(await run(command)).toMatchObject({ code: 0 })
  })

  it('shows more than one of them', () => expect(commands.length).toBeGreaterThan(3))
})

describe('a replay', () => {
  const against = 'replay --config new.yaml --against old.yaml access.log'
  const suggesting = 'replay --suggest --refused 20% --config gateway.yaml access.log'

  it('writes the page that it is asked for, and says where', async () => {
    const { code, stderr } = await run(`${against} --html report.html`)
    const told = expect.stringContaining(`report: ${files['report.html']}\n`)
    expect([code, stderr]).toEqual([0, told])
    const html = readFileSync(files['report.html'] ?? '', 'utf8')
    expect(html).toContain('Replay of <bdi>new.yaml</bdi> against <bdi>old.yaml</bdi>')
    expect(html).toMatch(/2 of 3 clients are refused more: \d+ requests/)
    const refused = await run(`${against} --html /nowhere/report.html`)
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('cannot write') })
    expect(refused.stdout).toContain('bolt\tfree')
  })

  it('tells of clients that only one of two configurations has, and each column adds up', async () => {
    const without = (id: string): string => {
      const all = configOf(plansOf(20)).split('\n')
      return temporaryFile('one.yaml', all.filter((one) => !one.includes(`id: ${id},`)).join('\n'))
    }
    const command = `replay --config ${without('bolt')} --against ${without('calm')} access.log`
    const { clients, gone, before, ...now } = JSON.parse(
      (await run(`${command} --json`)).stdout,
    ) as ReplayReport
    const refused = { minute: 0, day: 0, ban: 0 }
    expect(gone).toBe(1)
    expect(now).toMatchObject({ requests: 4_440, admitted: 840, refused, other: 3_600 })
    const { minute = 0, day = 0, ban = 0 } = before?.refused ?? {}
    expect(before).toMatchObject({ admitted: 1_720, other: 120 })
    expect(minute + day + ban).toBe(2_600)
    expect(clients[0]).toMatchObject({ client: 'bolt', admitted: 0, other: 3_600 })
    const { stdout } = await run(command, { columns: 80 })
    expect(stdout).toMatch(/^bolt +free +3,600 +2,600 +3,600 .* other$/m)
    expect(stdout).toContain('1 client gone under NEW')
  })

  it('suggests plans and limits on 80 columns', async () => {
    const { stdout } = await run(suggesting, { columns: 80 })
    const all = stdout.trimEnd().split('\n')
    expect(all.filter((line) => line.length > 80)).toEqual([])
    expect(all.slice(-7)).toEqual([
      'Busiest minute and day of 3 clients, and limits at which 20% is refused:',
      'PLAN  WINDOW  CLIENTS  P50    P95    P99  LIMIT  AT 20%  REFUSED',
      'free  minute        3   12     60     60     20      55      20%',
      'free  day           3  720  3,600  3,600  1,000   2,726      20%',
      '1 of 3 clients would need another plan, or a smaller one would do:',
      'CLIENT  PLAN  SUGGEST  REQUESTS  REFUSED  PEAK MINUTE  PEAK DAY',
      'bolt    free  none        3,600    2,600           60     3,600',
    ])
  })

  it('suggests a line of each client in a pipe, and all of it as JSON', async () => {
    const { stdout } = await run(suggesting)
    expect(stdout.split('\n').toSorted().slice(1)).toEqual([
      'acme\tfree\tfree\t720\t0\t12\t720',
      'bolt\tfree\tnone\t3600\t2600\t60\t3600',
      'calm\tfree\tfree\t120\t0\t2\t120',
    ])
    const report = JSON.parse((await run(`${suggesting} --json`)).stdout) as ReplayReport
    expect(report.clients.map(({ suggest }) => suggest)).toEqual([null, 'free', 'free'])
    const { share = 0, refused = 0 } = report.suggestions?.plans[0]?.atShare ?? {}
    expect(share).toBeLessThanOrEqual(0.2)
    expect(share).toBeGreaterThan(0.18)
    expect(refused).toBe(Math.round(share * 4_440))
  })

  it('says what a pipe does not get of two tables', async () => {
    const both = suggesting.replace('--config', '--against old.yaml --config')
    expect((await run(both)).stderr).toMatch(/^a pipe gets the suggestions alone; .*--json$/m)
    expect((await run(both, { columns: 80 })).stdout).not.toContain('a pipe gets')
  })

  it.each([
    ['without --suggest', suggesting.replace('--suggest ', ''), '--refused needs --suggest'],
    ['that is none', suggesting.replace('20%', 'few'), 'Write a share such as 1%'],
  ])('refuses a share %s', async (_, command, message) => {
    const { code, stderr } = await run(command)
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
  })
})

describe('of logs that are foreign or hostile, a replay', () => {
  const line = (user: string, time: string | number = new Date(FROM).toISOString()): string =>
    `${JSON.stringify({ user, time, status: 200 })}\n`
  const replayOf = (log: string, options: Parameters<typeof run>[1] = {}) =>
    run(`replay --config gateway.yaml ${temporaryFile('other.log', log)}`, options)

  it('shows names of unknown clients so that they do nothing to the terminal', async () => {
    const { stdout } = await replayOf(line('\u001b[31mevil\u0007'), { columns: 80 })
    expect(stdout).toContain('\n  \\u{1b}[31mevil\\u{7}\n')
  })

  it('counts times that no date has as unreadable', async () => {
    const { code, stderr } = await replayOf(line('acme', 1e300) + line('acme'))
    expect(code).toBe(0)
    expect(stderr).toMatch(
      /^1 unreadable; line 1 of .*\n {2}has no time that can be read\nnot our log.*\n$/,
    )
  })

  it('tells the day of a refusal where there is more than one, and what it takes as admitted', async () => {
    const next = '2026-11-03T10:00:00.000Z'
    const { stdout } = await replayOf(line('acme') + line('acme', next).repeat(21), { columns: 80 })
    expect(stdout).toMatch(/^acme .* 11-03 10:00:00Z +minute$/m)
    expect(stdout).toContain('not our log: each request counts as admitted, but for 401 and 403\n')
    expect((await replayOf(line('acme').repeat(21), { columns: 80 })).stdout).toMatch(
      /^acme .* {2}00:00:00Z +minute$/m,
    )
  })

  it.each(['--time-field', '--status-field'])('are not read by %s alone', async (option) => {
    const command = ['replay', '--config', files['gateway.yaml'] ?? '', option, 'x', '-']
    const { code, stderr } = await typed(command, { env: {} })
    expect([code, stderr]).toEqual([2, expect.stringContaining('needs --client-field')])
  })

  it('takes requests in their order where they last longer than a minute, if it is told so', async () => {
    const at = (minute: number): string => new Date(FROM + minute * 60_000).toISOString()
    const filler = Array.from({ length: 20_000 }, (_, nth) => line('calm', FROM + 1e5 + nth * 20))
    const log = [line('acme', at(0)), ...filler, line('acme', at(0)).repeat(20)].join('')
    const lateOf = async (option: string) => {
      const command = `replay --json --config gateway.yaml ${option}`
      const { stdout } = await run(`${command} ${temporaryFile('late.log', log)}`)
      return (JSON.parse(stdout) as ReplayReport).read.late
    }
    expect([await lateOf('--window 60s'), await lateOf('--window 10m')]).toEqual([20, 0])
    const refused = await run('replay --window 2d --config gateway.yaml access.log')
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('from 0ms to 1d') })
  })

  it('says into a pipe too what could not be read, why, and what helps', async () => {
    const { code, stdout, stderr } = await replayOf('torn\n')
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain('is neither JSON nor in the combined format')
    expect(stderr).toContain('remedy')
  })
})
