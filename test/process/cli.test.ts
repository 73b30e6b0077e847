import { readFileSync, readdirSync } from 'node:fs'
import { createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { typed } from '../support/command-line.ts'
import { configText, sha256 } from '../support/gateway.ts'
import { listening } from '../support/listening.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { freePort } from '../support/redis-server.ts'
import { configFile, gatewayProcess, linesOf, startRawBackend, run } from './gateways.ts'
import { startTollgate, gatewayHere, decided } from './gateways.ts'

const nowhere = 'http://127.0.0.1:1'
const packageFile = new URL('../../package.json', import.meta.url)
const example = new URL('../../config/gateway.yaml', import.meta.url).pathname

const here = (...args: string[]) => typed(args)
/** To its end, as a process: exit code, and what its log says last. */
async function start(...args: string[]) {
  const { code, stderr } = await run(...args)
  return { code, ...linesOf(stderr).at(-1) }
}

describe.concurrent('the command line', () => {
  it('is a process with these outputs and exit codes', async () => {
    for (const [args, code] of [
      [['strat'], 2],
      [['check', '--config', example], 0],
    ] as const) {
      const finished = await run(...args)
      expect(finished).toEqual(await typed(args))
      expect(finished.code).toBe(code)
    }
  })

  it("loads nothing of Node's fetch with a gateway that sends no notices", async () => {
    const left = `process.on('exit', () => console.error('of fetch:', process.moduleLoadList.filter((name) => /undici/.test(name))))`
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(left)}` }
    const file = configFile(nowhere)
    const { listening, signal, finished } = startTollgate(['start', '--config', file], { env })
    await listening('admin')
    signal('SIGTERM')
    expect((await finished).stderr).toContain('of fetch: []')
  })

  it('tells its version, as package.json has it', async () => {
    const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string }
    for (const option of ['--version', '-v'])
      expect(await typed([option])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  it.each(['--help', '-h', 'help'])(
    'answers %s with every command and the exit codes',
    async (word) => {
      const { code, stdout, stderr } = await typed([word])
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      const [run, look, change, config] = ['Run', 'Look', 'Change', 'Config'].map((title) => {
        const block = new RegExp(`^${title}:\n((?: .*\n)+)`, 'm').exec(stdout)?.[1] ?? ''
        return Array.from(block.matchAll(/^ {2}(\w+)/gm), ([, name]) => name)
      })
      expect([run, look, change, config]).toMatchObject([
        ['start', 'demo', 'catalogue'],
        expect.arrayContaining(['usage', 'clients', 'top', 'backends', 'deprecations']),
        expect.arrayContaining(['bans', 'keys', 'reload']),
        expect.arrayContaining(['init', 'check', 'diff', 'completion', 'help']),
      ])
      expect(stdout).toContain('Exit codes')
      expect(stdout).not.toMatch(/^ +(?:worker|complete) /m)
    },
  )

  it.each([
    ['start', '--config --watch'],
    ['demo', '--config --db'],
    ['catalogue', '--listen --db'],
    ['check', '--config --connect --against'],
    ['diff', '--json'],
    ['init', '--write --upstream --client'],
    ['keys new', '--client --plan --per-minute --per-day --expires --write --json'],
    ['keys rotate', '--write --grace --expires --json'],
    ['keys revoke', '--write'],
    ['keys list', '--config --admin --expiring --client --json'],
    ['usage', '--admin --json --day --from --to --csv'],
    ['usage reset', '--admin --json --minute --day'],
    ['bans list', '--admin --json'],
    ['bans add', '--admin --json --for --reason --client'],
    ['bans lift', '--admin --json'],
    ['clients', '--admin --json --plan --search --sort'],
    ['top', '--admin --json --by'],
    ['backends', '--admin --json'],
    ['deprecations', '--admin --json'],
    ['config', '--admin --json --diff'],
    ['reload', '--admin --json --dry-run'],
    ['completion', ''],
  ])('has help of its own for %s', async (command, options) => {
    const { code, stdout, stderr } = await typed([...command.split(' '), '--help'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain(`Usage: tollgate ${command} `)
    const named = Array.from(stdout.matchAll(/^ +(?:-h, )?(--[\w-]+)/gm), ([, name]) => name)
    expect(named.join(' ')).toBe(`${options} --help`.trim())
    if (['check', 'reload', 'keys list'].includes(command))
      expect(stdout).toContain('the environment variable TOLLGATE_ADMIN_TOKEN.')
  })

  it.each([
    ['', 'start'],
    ['keys', 'new'],
  ])(
    'answers "tollgate %s" with the commands there are, on stderr, and exit code 2',
    async (line, command) => {
      const { code, stdout, stderr } = await typed(line.split(' ').filter((word) => word !== ''))
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toMatch(new RegExp(`^ +${command} `, 'm'))
    },
  )

  it.each([
    ['serve', "unknown command 'serve'"],
    ['strat', "unknown command 'strat'\n(Did you mean start?)"],
    ['keys nwe', "unknown command 'nwe'\n(Did you mean new?)"],
    ['start', 'option --config <file> is missing'],
    ['start --config', "option '--config <file>' argument missing"],
    ['start --config --db', "argument '--db' is invalid. It needs a value."],
    ['start --port 80', "unknown option '--port'"],
    ['start --confg a.yaml', "unknown option '--confg'\n(Did you mean --config?)"],
    ['start gateway.yaml', "arguments for 'start'. Expected 0 arguments but got 1: gateway.yaml."],
    ['start --config a.yaml --config b.yaml', "'b.yaml' is invalid. It is given twice; keep one."],
    ['check', 'option --config <file> is missing'],
    ['diff', "missing required argument 'old'"],
    ['catalogue --db x.db', 'option --listen <host:port> is missing'],
    ['catalogue --listen 127.0.0.1:0', 'option --db <file> is missing'],
    ['catalogue --listen 3000 --db x.db', '--listen is not HOST:PORT; write 127.0.0.1:8080'],
    ['check --config a.yaml --against a.b', "'a.b' is invalid. Write http://HOST:PORT."],
    ['reload --admin localhost:9090', "'localhost:9090' is invalid. Write http://HOST:PORT."],
    ['keys new --plan pro', 'option --client <id> is missing'],
    ['keys new --client acme', 'option --plan <plan> is missing'],
    ['bans add acme-1', 'option --for <duration> is missing'],
    ['bans add --for 1h', 'KEY_ID and --client: give one of them'],
    ['bans add acme-1 --for 401d', '--for is out of range; write a duration from 1s to 400d'],
    ['usage --day 3.11.', '--day is not a date; write it as 2026-11-03'],
    ['usage acme --day 2026-02-30', '--day is not a date; write it as 2026-11-03'],
    ['usage acme --day 2026-11-03 --to 2026-11-04', '--day stands alone'],
    ['usage --from 2026-11-01 --to 2026-11-03', 'told with --csv; or name a client'],
    ['usage reset acme', 'which windows? Give --minute, --day or both'],
    ['completion tcsh', 'Allowed choices are bash, zsh, fish.'],
    ['worker', 'worker is no command of its own'],
  ])('refuses "tollgate %s" with exit code 2, and the fault in plain text', async (line, fault) => {
    const { code, stdout, stderr } = await typed(line.split(' '))
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^tollgate: /)
    expect(stderr).toContain(fault)
    if (!/^(?:worker|KEY|--)/.test(fault) && !fault.startsWith('told'))
      expect(stderr).toContain('Add --help to see what is taken.\n')
  })
})

describe.concurrent('a configuration that is refused', () => {
  const bad = temporaryFile('bad.yaml', 'unmatched: perhaps\nserver:\n  workers: many\nfoo: 1\n')
  const problems = ['1:12 unmatched', '3:12 server.workers', '4:1 foo'].map((at) => `${at}: .*; `)
  const text = readFileSync(example, 'utf8').replace('127.0.0.1:8080', '0.0.0.0:0')
  const open = temporaryFile('open.yaml', text)

  it.each([
    ['start', open, ['1:1 server.listen: opens public demo keys .*; ']],
    ['demo', bad, problems],
  ])('keeps %s from starting: every problem in one log line', async (command, file, faults) => {
    const { code, stdout, stderr } = await run(command, '--config', file)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    const said = faults.map((fault) => expect.stringMatching(`^${file}:${fault}`) as string)
    const line = { level: 'error', event: 'configRefused', problems: said }
    expect(linesOf(stderr)).toMatchObject([line])
  })
})

const server = 'server: { listen: "127.0.0.1:PORT" }'
const admin = 'admin: { listen: "127.0.0.1:PORT" }'
const upstream = 'upstream: { urls: ["http://127.0.0.1:PORT"] }'
// It keeps trying to reach Redis.
const store = 'store: { redis: "redis://[::1]:1" }'
it.concurrent.each([
  ['start', 'public listener', 'server.listen', { server, log: 'log: { level: silent }' }],
  ['start', 'admin listener', 'admin.listen', { admin, store }],
  ['demo', 'catalogue service', 'upstream.urls', { upstream }],
  // The catalogue, which was up already, is closed again.
  ['demo', 'public listener', 'server.listen', { server }],
])(
  'tollgate %s ends with 1 where the address of the %s cannot be had, and names %s',
  async (command, listener, setting, blocks) => {
    const [port, free] = [await listening(createServer()), await freePort()]
    const text = configText({ upstreams: [`http://127.0.0.1:${free}`], blocks })
    const file = temporaryFile('gateway.yaml', text.replace('PORT', String(port)))
    expect(await start(command, '--config', file)).toMatchObject({
      code: 1,
      level: 'fatal',
      event: 'startFailed',
      message: `the ${listener} cannot listen on 127.0.0.1:${port}: the address is in use; stop what uses it, or change ${setting} in the config (EADDRINUSE)`,
    })
  },
)

describe.concurrent('tollgate start', () => {
  it('takes values from the environment, prints one line per listener with its real address, and nothing else on stdout', async () => {
    const server = 'server: { listen: "localhost:${PUBLIC_PORT:-x}" }'
    const file = configFile(nowhere, { server })
    const port = await freePort()
    const gateway = await gatewayProcess(file, { env: { PUBLIC_PORT: String(port) } })
    const [first, ...more] = gateway.stdout().split('\n')
    expect([
      `tollgate listening on http://127.0.0.1:${port}/v1`,
      `tollgate listening on http://[::1]:${port}/v1`,
    ]).toContain(first)
    expect(more).toEqual([expect.stringMatching(/^admin listening on http:\S+:[1-9]\d*$/), ''])
    const events = linesOf(gateway.stderr()).map(({ event }) => event)
    expect(events).not.toContain('warning')
    const [taken] = gateway.logged('configTaken')
    expect(taken?.['store']).toBe('embedded (in memory only)')
    const [warned] = gateway.logged('configWarning')
    expect(warned?.['problem']).toMatch(/clients\[0\]\.keys\[1\]\.expires: warning: /)
    // Without the variable; with it nothing is started, so the port may be in use.
    expect((await typed(['check', '--config', file])).code).toBe(2)
    const env = { PUBLIC_PORT: String(port) }
    expect((await typed(['check', '--config', file], { env })).code).toBe(0)
  })
})

describe.concurrent('tollgate init', () => {
  it('writes a configuration that starts, and shows the key that it lets in', async () => {
    const backend = await startRawBackend()
    const file = `${temporaryFolder()}/new.yaml`
    const { code, stdout, stderr } = await here('init', '--write', file, '--upstream', backend.url)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const key = /^tg_\S+$/m.exec(stdout)?.[0] ?? ''
    expect(stdout).toMatch(new RegExp(`^node \\S+ start --config ${file}$`, 'm'))
    expect(stdout).toContain(
      `curl -i -H 'Authorization: Bearer ${key}' http://127.0.0.1:8080/v1/\n`,
    )
    const written = readFileSync(file, 'utf8')
    expect(written).toContain(sha256(key))
    expect(written).not.toContain(key)
    expect(written).toContain("file: 'data/new.db'\n")
    const anyPort = 'server: { listen: "127.0.0.1:0" }\nadmin: { listen: "127.0.0.1:0" }\n'
    const rest = written.replace(/^server:\n.*\n/m, '').replace('data/new.db', '')
    const gateway = await gatewayHere(temporaryFile('any-port.yaml', anyPort + rest))
    const answer = await decided(() => gateway.call(key))
    expect([answer.status, answer.headers.get('x-ratelimit-limit')]).toEqual([200, '60'])
    expect(backend.requests).toHaveLength(1)
  })

  it.each([
    ['npx', 'npx tollgate start'],
    ['tollgate', 'npm run tollgate -- start'],
  ])('names the command that starts it where npm has run %s', async (event, command) => {
    const file = `${temporaryFolder()}/new.yaml`
    const env = { npm_lifecycle_event: event }
    const { stdout } = await typed(['init', '--write', file], { env })
    expect(stdout).toContain(`\n${command} --config ${file}\n`)
  })

  it('writes over nothing, nor what could not be started', async () => {
    const file = temporaryFile('mine.yaml', 'mine')
    const there = await here('init', '--write', file)
    expect(there).toEqual({
      code: 2,
      stdout: '',
      stderr: `tollgate: ${file} is there already; name another file with --write\n`,
    })
    expect(readFileSync(file, 'utf8')).toBe('mine')
    const folder = temporaryFolder()
    for (const [name, options, code, fault] of [
      ['none/a.yaml', [], 1, 'cannot be written (ENOENT); check its folder'],
      ['a.yaml', ['--upstream', 'pets'], 2, '--upstream "pets" is not an origin; '],
      ['a.yaml', ['--client', 'a b'], 2, '--client is not an id; '],
    ] as const) {
      const refused = await here('init', '--write', `${folder}/${name}`, ...options)
      expect({ code: refused.code, stdout: refused.stdout }).toEqual({ code, stdout: '' })
      expect(refused.stderr).toContain(fault)
    }
    expect(readdirSync(folder)).toEqual([])
  })
})

it('tollgate diff tells in a line each what changes, says that nothing does, and refuses a file that would not start', async () => {
  const text = configText({ upstreams: [nowhere] })
  const file = (changed: string): string => temporaryFile('gateway.yaml', changed)
  const diff = (changed: string, ...options: string[]) =>
    here('diff', ...options, file(text), file(changed))
  const next = `unmatched: reject\n${text.replace('perMinute: 60', 'perMinute: 5')}`
  const { code, stdout, stderr } = await diff(next)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^[0-9a-f]{12} to [0-9a-f]{12}\n/)
  expect(stdout).toMatch(/^~ \d settings?: .*unmatched/m)
  expect(stdout).not.toContain('key')
  const json = JSON.parse((await diff(next, '--json')).stdout) as unknown
  expect(json).toMatchObject({ clients: { added: [] }, needsRestart: [] })
  expect(await diff(`# a comment\n${text}`)).toEqual({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(/^[0-9a-f]{12} to [0-9a-f]{12}, nothing changes\n$/) as string,
  })
  expect(await diff(`unmatched: maybe\n${text}`)).toEqual({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(/^\S+:1:12 unmatched: "maybe" is /) as string,
  })
})

describe.concurrent('tollgate catalogue', () => {
  it('serves the operations on its own, and says what is wrong with its address and its file', async () => {
    const catalogue = startTollgate(['catalogue', '--listen', '127.0.0.1:0', '--db', 'pets.db'])
    const url = await catalogue.listening('catalogue')
    expect(await (await fetch(`${url}/pets`)).json()).toEqual([])
    for (const [address, db, fault] of [
      [new URL(url).host, 'pets.db', 'or change --listen (EADDRINUSE)'],
      ['127.0.0.1:0', '/nowhere/pets.db', 'in a folder where it may create files'],
    ] as const)
      expect(await start('catalogue', '--listen', address, '--db', db)).toMatchObject({
        code: 1,
        message: expect.stringContaining(fault) as string,
      })
    catalogue.signal('SIGTERM')
    expect((await catalogue.finished).code).toBe(0)
  })
})

it.each([1, 2])(
  'a file for TLS to backends that is of no use ends the start of %i workers, with key, file and remedy',
  async (workers) => {
    const server = `server: { listen: "127.0.0.1:0", workers: ${workers} }`
    const upstream = `upstream: { urls: ["https://127.0.0.1:1"], tls: { ca: ${import.meta.filename} } }`
    const file = configFile(nowhere, { server, upstream })
    const message = `upstream.tls.ca: ${import.meta.filename} cannot be used (not PEM); give the PEM certificates of the authorities to trust`
    if (workers === 1) await expect(gatewayHere(file)).rejects.toThrow(message)
    else
      expect(await start('start', '--config', file)).toMatchObject({
        code: 1,
        event: 'startFailed',
        message,
      })
  },
)
