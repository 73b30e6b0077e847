/** What operators type at a running gateway, on a terminal and in a pipe; docs/cli.md shows it. */
import { execFileSync } from 'node:child_process'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { clock } from '../../src/insight/format.js'
import { typed } from '../support/command-line.ts'
import { configText, sha256 } from '../support/gateway.ts'
import { listening } from '../support/listening.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { onTerminal } from '../support/pseudo-terminal.ts'
import { freePort } from '../support/redis-server.ts'
import { ensurePackage } from '../support/debian-package.ts'
import { compileCache, sources } from '../support/sources.ts'
import { decided, eventually, gatewayProcess, startRawBackend, startTollgate } from './gateways.ts'
import type { GatewayProcess } from './gateways.ts'

const DAY_MS = 86_400_000
const key = (id: string): string => `tg_test_${id}_0123456789abcdef`
const clients = `clients:
  - { id: acme, plan: pro, keys: [{ id: acme-1, sha256: ${sha256(key('acme-1'))} }, { id: acme-2, sha256: ${sha256(key('acme-2'))}, expires: ${new Date(Date.now() + 5.5 * DAY_MS).toISOString()} }] }
  - { id: bolt, plan: enterprise, limits: { perMinute: 12, perDay: 12 }, keys: [{ id: bolt-1, sha256: ${sha256(key('bolt-1'))} }] }`

let gateway: GatewayProcess
const nowhere = 'http://127.0.0.1:1'
/** `tollgate ARGS` in a pipe. */
const piped = (args: readonly string[], admin = gateway.adminOrigin) =>
  typed([...args, '--admin', admin])
/** The same on a terminal: its lines, without the empty one at their end. */
const shown = async (
  args: readonly string[],
  { colour = false, columns = 80 }: { colour?: boolean; columns?: number } = {},
) => {
  const env = { TERM: 'xterm', ...(!colour && { NO_COLOR: '1' }) }
  const all = [...args, '--admin', gateway.adminOrigin]
  return (await typed(all, { columns, env })).stdout.trimEnd().split('\n')
}

beforeAll(async () => {
  const backend = await startRawBackend()
  const upstream = `upstream: { urls: [${backend.url}, ${nowhere}], eject: { failures: 1, for: 5m } }`
  const server = 'server: { listen: "127.0.0.1:0", workers: 2 }'
  const store = `store: { file: ${join(temporaryFolder(), 'tollgate.db')} }`
  const text = configText({
    upstreams: [backend.url],
    blocks: { server, upstream, store, clients },
  })
  gateway = await gatewayProcess(temporaryFile('gateway.yaml', text))
  const headers = { 'user-agent': 'python-requests/2.32' }
  for (let at = 0; at < 15; at++) {
    const acme = await decided(() => gateway.call(key('acme-1'), '/v1/pets/7', { headers }))
    const bolt = await decided(() => gateway.call(key('bolt-1')))
    expect([acme.status, bolt.status]).toEqual([200, at < 12 ? 200 : 429])
  }
  await eventually('the seconds of both workers', async () => {
    const answer = await fetch(`${gateway.adminOrigin}/api/clients?sort=refused`)
    const { clients } = (await answer.json()) as { clients: { refusedLately: number }[] }
    return clients[0]?.refusedLately === 3
  })
})
/** What is left of a page when all that differs from run to run is gone: its words, and how many numbers a line has. */
const shape = (text: string): string[] =>
  text
    .trimEnd()
    .replaceAll(/\d{4}-\d\d-\d\d( \d\d:\d\dZ)?|\d\d:\d\d:\d\dZ/g, 'N')
    .replaceAll(/\d[\d.]* (?:ms|s|min|h|d)\b(?: \d+ (?:s|min|h)\b)?/g, 'N')
    .replaceAll(/127\.0\.0\.1:\d+|<?\b\d[\d,.]*%?|–/g, 'N')
    .replaceAll(/(limited by \w+), .*/g, '$1')
    .replaceAll(/\bin N|N ago|now\b/g, 'R')
    .split('\n')
    .map((line) => line.trimEnd().replaceAll(/ +/g, ' '))

describe('docs/cli.md', () => {
  const page = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8')
  const shownThere = Array.from(
    page.matchAll(/^\$ tollgate (.+)\n((?:(?!\$ |```).*\n)*)/gm),
    ([, line = '', output = '']) => [line, output] as const,
  )

  it('shows every command that operators have', () => {
    const names =
      'backends,clients,usage,usage reset,deprecations,config,top,bans list,bans add,bans lift,keys list'
    for (const name of names.split(',')) expect(page).toContain(`\n$ tollgate ${name}`)
  })

  // In the order of the page, as some change what the next ones show.
  it.each(shownThere.filter(([line]) => line !== 'top'))(
    'has what tollgate %s prints',
    async (line, output) => {
      const words = Array.from(
        line.matchAll(/"([^"]*)"|(\S+)/g),
        ([, text, word = '']) => text ?? word,
      ).filter((word) => word !== '--admin' && !word.startsWith('http'))
      // Of 80 columns a state that ends in whole hours would leave room for the plan.
      const columns = words[0] === 'clients' ? 76 : 80
      let actual: string
      // A busy machine may be too late to explain: that is to be asked again.
      do actual = (await shown(words, { columns })).join('\n')
      while (/^tollgate: So many are explained/m.test(actual))
      const [expected, isCut] = [output.replace(/^…\n/m, ''), /^…$/m.test(output)]
      const lines = shape(actual)
      expect(isCut ? lines.slice(0, shape(expected).length) : lines, actual).toEqual(
        shape(expected),
      )
    },
  )
})

describe('bans', () => {
  const reason = 'sends each request twice, as it retries after an answer has come'

  it('of the longest are imposed again as their lift says', async () => {
    expect((await piped(['bans', 'add', 'acme-2', '--for', '400d'])).code).toBe(0)
    const { stderr } = await piped(['bans', 'lift', 'acme-2'])
    const [, undo = ''] = /^undo +tollgate ([^;]*);/.exec(stderr) ?? []
    expect(await piped(undo.split(' '))).toMatchObject({ code: 0 })
    expect((await piped(['bans', 'lift', 'acme-2'])).code).toBe(0)
  })

  it('are imposed, listed and lifted; each change says what was, what is, and how to undo it', async () => {
    expect(await shown(['bans', 'list'])).toEqual(['No key is banned.'])
    expect(await shown(['bans', 'add', 'acme-2', '--for', '1h', '--reason', reason])).toEqual([
      'before  acme-2 not banned',
      expect.stringMatching(
        /^after {3}acme-2 banned until .+, in (?:59 min \d+ s|1 h), by operator: sends each/,
      ),
      'undo    tollgate bans lift acme-2',
    ])
    await eventually('the ban', async () => (await gateway.call(key('acme-2'))).status === 429)
    // One end, whoever gives it: it is rounded up once.
    const endOf = (lines: readonly string[]) =>
      /(?:banned|refuse) +until ([\d: -]+Z)/.exec(lines.join('\n'))?.[1]
    const added = await shown(['bans', 'add', 'acme-2', '--for', '1h', '--reason', reason])
    const explained = await shown(['explain', 'GET /v1/pets', '--key', 'acme-2'])
    const { headers } = await gateway.call(key('acme-2'))
    const end = clock(1_000 * Number(headers.get('x-ratelimit-reset')), Date.now())
    expect([endOf(added.slice(1)), endOf(explained)]).toEqual([end, end])
    const ofAcme = ['clients', '--search', 'acme-2']
    const [row, own] = (await shown(ofAcme, { columns: 140 })).slice(-2)
    expect(row).toMatch(/ key acme-2 banned, (?:5\d min|1 h)/)
    expect(own).toContain('of this gateway alone')
    expect((await piped(ofAcme)).stdout).toMatch(/^acme\t.*\tkey acme-2 banned$/m)
    const wide = await shown(['bans', 'list'], { columns: 140 })
    const [since, ends] = [/^now$| ago$/, /^in (?:59 min \d+ s|1 h)$/].map(
      (text) => expect.stringMatching(text) as unknown,
    )
    expect(wide.map((line) => line.split(/ {2,}/))).toEqual([
      ['KEY', 'CLIENT', 'BY', 'SINCE', 'ENDS', 'REASON'],
      ['acme-2', 'acme', 'operator', since, ends, reason],
      ['Lift one: tollgate bans lift KEY_ID'],
    ])
    const piece = await piped(['bans', 'list'])
    const stamp: unknown = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    const cells = ['acme-2', 'acme', 'operator', stamp, stamp, reason]
    expect([piece.stderr, piece.stdout.trimEnd().split('\t')]).toEqual(['', cells])
    expect(await shown(['bans', 'lift', 'acme-2'])).toEqual([
      expect.stringMatching(/^before {2}acme-2 banned until /),
      'after   acme-2 not banned',
      expect.stringMatching(/^undo {4}tollgate bans add acme-2 --for 3\d{3}s; its strikes stay/),
    ])
    await eventually('no ban', async () => (await gateway.call(key('acme-2'))).status === 200)
  })

  it('of all keys of a client are one list in JSON', async () => {
    const { stdout } = await piped(['bans', 'add', '--client', 'acme', '--for', '1h', '--json'])
    expect(JSON.parse(stdout)).toMatchObject([{ key: 'acme-1' }, { key: 'acme-2' }])
    for (const { key: one } of JSON.parse(stdout) as { key: string }[])
      expect((await piped(['bans', 'lift', one])).code).toBe(0)
  })
})

/** What the command leaves with where this answers it. */
const answeredBy = async (listener: RequestListener, args: readonly string[]) =>
  piped(args, `http://127.0.0.1:${await listening(createServer(listener))}`)

describe('a fault', () => {
  it('names cause and remedy: no gateway', async () => {
    const closed = `http://127.0.0.1:${await freePort()}`
    expect(await piped(['bans', 'list'], closed)).toEqual({
      code: 1,
      stdout: '',
      stderr: `tollgate: cannot reach the gateway at ${closed}\n  cause   connection refused\n  remedy  start it: tollgate start; or name it: --admin URL\n`,
    })
  })

  it.each([
    ['bans', 'list'],
    ['usage', '--csv'],
  ])('names an answer that breaks off: %s %s', async (...args) => {
    const { code, stderr } = await answeredBy(
      (_, response) => void response.write('{"bans":[', () => response.destroy()),
      args,
    )
    expect([code, stderr]).toEqual([1, expect.stringMatching(/breaks off\n  cause .*\n  remedy /)])
  })

  it.each([[['bans', 'list']], [['bans', 'list', '--json']]])(
    'shows what a hostile admin server says to %j, and lets none of it act on the terminal',
    async (args) => {
      const message = 'done\x1b[2J\x1b]0;owned\x07 \u009b2J \u202e'
      const { code, stderr } = await answeredBy((_, response) => {
        response.writeHead(404, { 'Content-Type': 'application/json' })
        response.end(JSON.stringify({ code: 'x', message, status: 404 }))
      }, args)
      expect(code).toBe(1)
      expect(stderr).toContain('\\u001b[2J\\u001b]0;owned\\u0007 \\u009b2J \\u202e')
      expect(stderr).toMatch(/^[\x20-\x7e\n]+$/)
    },
  )

  it('names the admin listener where the public one was asked', async () => {
    const { code, stderr } = await piped(['bans', 'list'], gateway.origin)
    expect([code, stderr]).toEqual([1, expect.stringContaining('the admin listener of a gateway')])
  })

  it.each([
    [['bans', 'lift', 'nobody-1'], 1, 'unknown_key'],
    [['bans', 'add', 'acme-1', '--for', 'long'], 2, 'usage'],
    [['bans', 'add', 'acme-1'], 2, 'usage'],
    [['usage', 'reset', 'nobody', '--day'], 1, 'unknown_client'],
    [['usage', 'nobody'], 1, 'unknown_client'],
    [['top', '--by', 'name'], 2, 'usage'],
    [['keys', 'list', '--expiring', '30d'], 0, undefined],
  ])('of %j is JSON for a program: exit code %d, %s', async (args, exit, code) => {
    const { code: left, stdout, stderr } = await piped([...args, '--json'])
    expect(left).toBe(exit)
    const fault = code && { code, message: expect.any(String) as string }
    if (fault === undefined) expect(stderr).toBe('')
    else expect([stdout, JSON.parse(stderr)]).toMatchObject(['', { error: fault }])
  })
})

describe('colour', () => {
  const list = ['keys', 'list']

  it('is there on a terminal alone, and can be switched off', async () => {
    const [coloured, plain, asked] = [
      await shown(list, { colour: true }),
      await shown(list),
      await shown([...list, '--no-color'], { colour: true }),
    ]
    expect(coloured.join('')).toContain('\x1b[33mexpiring\x1b[39m')
    expect(coloured.map(stripVTControlCharacters)).toEqual(plain)
    expect(asked).toEqual(plain)
    const all = [...list, '--admin', gateway.adminOrigin]
    const [{ shown: real }, { stdout }] = await Promise.all([
      onTerminal(all).finished,
      startTollgate(all).finished,
    ])
    expect(real.trimEnd().split('\n')).toEqual(coloured)
    expect(stdout).toBe(stripVTControlCharacters(stdout))
    expect(stdout).toBe((await piped(list)).stdout)
    expect(stdout.split('\n').map((line) => line.split('\t').length)).toEqual([5, 5, 5, 1])
  })
})

describe('top', () => {
  it('shows what docs/cli.md shows, takes keys, and gives the terminal back', async () => {
    const page = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8')
    const [, frame = ''] = /^\$ tollgate top\n([^`]+)```/m.exec(page) ?? []
    const args = ['top', '--admin', gateway.adminOrigin]
    const terminal = onTerminal(args, { env: { NO_COLOR: '1' } })
    /** The latest frame. */
    const latest = (): string[] =>
      stripVTControlCharacters(terminal.shown().split('\x1b[H').at(-1) ?? '').split('\n')
    await gateway.call(key('acme-1'))
    await eventually('its rows', () => latest().some((line) => line.startsWith('acme ')))
    const heads = (lines: string[]) => lines.find((line) => line.startsWith('CLIENT'))?.split(/ +/)
    expect(heads(latest())).toEqual(heads(frame.split('\n')))
    expect(shape(latest().at(-1) ?? '')).toEqual(shape(frame.trimEnd().split('\n').at(-1) ?? ''))
    for (const line of latest()) expect(line.length).toBeLessThanOrEqual(80)
    terminal.type('f')
    await eventually('by refusals', () => latest().at(-1)?.includes(' by refusals ') === true)
    terminal.type('/')
    terminal.type('qx')
    await eventually('the filter', () => latest().at(-1) === '/qx')
    terminal.type('\r')
    await eventually('nobody', () => latest().includes('Nobody: /qx'))
    terminal.type('q')
    const { code, shown: all } = await terminal.finished
    expect([code, all.endsWith('\x1b[?25h\x1b[?1049l')]).toEqual([0, true])
  })

  it('gives the terminal back to whoever ends it by a signal', async () => {
    const terminal = onTerminal(['top', '--admin', gateway.adminOrigin])
    await eventually('a frame', () => /CLIENT|No requests/.test(terminal.shown()))
    const pids = execFileSync('pgrep', ['-P', String(terminal.child.pid)], { encoding: 'utf8' })
    process.kill(Number.parseInt(pids, 10), 'SIGTERM')
    const { shown: all } = await terminal.finished
    expect(all.endsWith('\x1b[?25h\x1b[?1049l')).toBe(true)
  })

  it('writes a line a second into a pipe, or JSON, and ends with its reader', async () => {
    const started = startTollgate(['top', '--admin', gateway.adminOrigin])
    await eventually('two lines', () => started.stdout().split('\n').length > 2)
    started.child.stdout?.destroy()
    expect((await started.finished).code).toBe(0)
    const [line] = started.stdout().split('\n')
    expect(line?.split('\t')).toHaveLength(9)
    const json = startTollgate(['top', '--json', '--admin', gateway.adminOrigin])
    await eventually('a line', () => json.stdout().includes('\n'))
    json.signal('SIGTERM')
    await json.finished
    const [first] = json.stdout().split('\n')
    expect(JSON.parse(first ?? '')).toMatchObject({ tick: {}, top: { by: 'requests' } })
  })
})

describe('completion', () => {
  /** A folder with a `tollgate` that shells find. */
  const folder = temporaryFolder()
  const path = `${folder}:${process.env['PATH'] ?? ''}`
  const env = { PATH: path, NODE_COMPILE_CACHE: compileCache }
  const command = join(folder, 'tollgate')
  writeFileSync(command, `#!/bin/sh\nexec ${process.execPath} ${sources} "$@"\n`)
  chmodSync(command, 0o755)

  const bash = async (...lines: string[]): Promise<string[]> => {
    const { stdout: completion } = await typed(['completion', 'bash'])
    const script = `for line in "$@"; do
COMP_LINE=$line; COMP_POINT=\${#COMP_LINE}; read -ra COMP_WORDS <<< "\${line//:/ : }"
[[ $line == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((\${#COMP_WORDS[@]}-1)); _tollgate tollgate
(IFS=,; echo "\${COMPREPLY[*]}"); done`
    const args = ['--norc', '-c', completion + script, 'bash', ...lines]
    const out = execFileSync('bash', args, { env, encoding: 'utf8' })
    return out.replace(/\n$/, '').split('\n')
  }

  it('in bash is of commands, options and their values', async () => {
    const words = {
      'tollgate ba': 'backends,bans',
      'tollgate bans ': 'list,add,lift,help',
      'tollgate usage re': 'reset',
      'tollgate usage reset acme --d': '--day',
      'tollgate clients --sort n': 'nearest',
      'tollgate completion f': 'fish',
      'tollgate check --config ': '',
    }
    expect(await bash(...Object.keys(words))).toEqual(Object.values(words))
  })

  it('asks the gateway for ids, and takes none of them for more than a word', async () => {
    await piped(['bans', 'add', 'acme-1', '--for', '1h', '--reason', '$(touch /tmp/evil) `id`'])
    const line = `tollgate bans lift --admin ${gateway.adminOrigin} acme-1`
    // It waits for 200 ms at most, which a busy machine may need.
    await eventually('ids', async () => (await bash(line)).join() === 'acme-1')
    await piped(['bans', 'lift', 'acme-1'])
  })

  it.each([
    [
      'zsh',
      '-fc',
      `_describe() { local -a a; a=("\${(@P)2}"); print -l -- "$a[@]" }; compdef() { :; }
source <(tollgate completion zsh); words=(tollgate ba); CURRENT=2; _tollgate`,
      /^backends:how each .*\nbans:list, .*\n$/,
    ],
    [
      'fish',
      '-c',
      'tollgate completion fish | source; complete -C "tollgate ba"',
      /^backends\thow each .*\nbans\tlist, .*\n$/,
    ],
  ])('is a script that %s takes', (shell, option, script, said) => {
    ensurePackage(shell, { probe: [shell, '--version'] })
    expect(execFileSync(shell, [option, script], { env, encoding: 'utf8' })).toMatch(said)
  })
})
