import { expect, it } from 'vitest'
import { conformanceCommand, reportLines } from '../../src/cli/conformance.ts'
import type { Report } from '../../src/tools/conformance/suite.ts'
import { lookOf } from '../../src/cli/terminal/look.ts'
import { all } from '../support/all.ts'
import { listener } from '../support/command-line.ts'
import { temporaryFile } from '../support/processes.ts'

const twenty = Array.from({ length: 20 }, (_, at) => `key-${at}`)
const file = (keys: readonly string[]): string => temporaryFile('keys.txt', keys.join('\n'))
const usual = { target: 'http://127.0.0.1:1', keys: file(twenty), limits: '60/1000' }
const command = (options: Partial<Parameters<typeof conformanceCommand>[1]>) =>
  conformanceCommand(listener().edge, { ...usual, ...options })

it.each([
  [{ limits: '60' }, /write 60\/1000/],
  [{ limits: '10/1000' }, /from 20 to 1000/],
  [{ keys: file(twenty.slice(1)) }, /has 19 keys; 20 are needed/],
  [{ keys: file([...twenty.slice(1), twenty[1] ?? '']) }, /has 19 keys/],
  [{ keys: file([...twenty, '', 'no key']) }, /line 22 is no key/],
  [{ keys: '/none' }, /--keys \/none cannot be read: ENOENT/],
  [{ path: 'v1' }, /does not begin with \//],
  [{ only: 'day,nights' }, /--only nights: there are isolation, admission/],
])('takes no %j', async (options, message) => {
  await expect(command(options)).rejects.toMatchObject({
    code: 'usage',
    message: expect.stringMatching(message) as unknown,
  })
})

it('says so where nobody listens', async () => {
  const reason = expect.stringContaining('ECONNREFUSED') as unknown
  const why = { reason, remedy: 'start the gateway, or correct --target' }
  await expect(command({})).rejects.toMatchObject({ code: 'unusable_target', why })
})

it('is a table on a terminal of 80 columns, and what is broken in full', async () => {
  const row = { group: 'day', name: 'day', rule: 'A rule that takes some words. '.repeat(5).trim() }
  const report = {
    requests: 12,
    seconds: 3,
    checks: [
      { ...row, source: 'contract 4.1', verdict: 'broken', seen: `${'long '.repeat(30)}end` },
      { ...row, source: 'contract 4.1', name: 'limit', verdict: 'holds', seen: '4 seen' },
    ],
  } as unknown as Report
  const look = lookOf({ args: [], env: { NO_COLOR: '1' }, screen: { columns: 80 } })
  const lines = await all(reportLines(report, look))
  expect(lines.slice(0, 3)).toEqual([
    'CHECK  VERDICT  SEEN',
    expect.stringMatching(/^day {4}broken {3}long .*…$/),
    'limit  holds    4 seen',
  ])
  expect(lines).toContain(`day: ${'long '.repeat(30)}end`)
  expect(lines.at(-1)).toBe('1 holds, 1 broken, 0 cannot tell, 0 not claimed; 12 requests in 3 s')
  expect(lines.filter((line) => line.length > 80 && !line.startsWith('day: '))).toEqual([])
  expect(lines.filter((line) => line.startsWith('  ')).join(' ')).toContain('(contract 4.1)')
})
