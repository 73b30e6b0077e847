import { readFileSync, readdirSync } from 'node:fs'
import { createServer } from 'node:net'
import { afterAll, describe, expect, it } from 'vitest'
import { typed } from '../support/command-line.ts'
import { configText, keys, sha256 } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { freePort } from '../support/redis-server.ts'
import {
  configFile,
  endAll,
  gatewayProcess,
  linesOf,
  rawBackend,
  run,
  tollgate,
} from './gateways.ts'

afterAll(endAll)

const nowhere = 'http://127.0.0.1:1'
const packageFile = new URL('../../package.json', import.meta.url)
const example = new URL('../../config/gateway.yaml', import.meta.url).pathname

/** A port that is in use until the test file ends. */
async function takenPort(): Promise<number> {
  const server = createServer().unref()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as { port: number }).port
}

/** What ends by itself, and needs no process for what it shows. */
const here = (...args: string[]) => typed(args)

describe.concurrent('the command line', () => {
  it('is a process with these outputs and exit codes', async () => {
    for (const [args, code] of [
      [['--help'], 0],
      [['strat'], 2],
      [['check', '--config', example], 0],
    ] as const) {
      const finished = await run(...args)
      expect(finished).toEqual(await typed(args))
      expect(finished.code).toBe(code)
    }
  })

  it.each(['--version', '-v'])(
    'tells its version by %s, as package.json has it',
    async (option) => {
      const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string }
      expect(await typed([option])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
    },
  )

  it.each(['--help', '-h', 'help'])(
    'answers %s with every command and the exit codes',
    async (word) => {
      const { code, stdout, stderr } = await typed([word])
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      for (const text of [
        'Run:\n  start',
        'demo',
        'catalogue',
        'Look:\n  usage',
        'clients',
        'top',
        'backends',
        'deprecations',
        'Change:\n  bans',
        'keys',
        'reload',
        'Config:\n  init',
        'check',
        'diff',
        'completion',
        'help',
        'Exit codes',
      ])
        expect(stdout).toContain(text)
      expect(stdout).not.toMatch(/^ +(?:worker|complete) /m)
    },
  )

  it.each([
    ['start', ['--config', '--watch']],
    ['demo', ['--config', '--db']],
    ['catalogue', ['--listen', '--db']],
    ['check', ['--config', '--connect', '--against']],
    ['diff', ['--json']],
    ['init', ['--write', '--upstream', '--client']],
    [
      'keys new',
      ['--client', '--plan', '--per-minute', '--per-day', '--expires', '--write', '--json'],
    ],
    ['keys rotate', ['--write', '--grace', '--expires', '--json']],
    ['keys revoke', ['--write']],
    ['keys list', ['--config', '--admin', '--expiring', '--client', '--json']],
    ['usage', ['--admin', '--json', '--day', '--from', '--to', '--csv']],
    ['usage reset', ['--admin', '--json', '--window']],
    ['bans list', ['--admin', '--json']],
    ['bans add', ['--admin', '--json', '--for', '--reason', '--client']],
    ['bans lift', ['--admin', '--json']],
    ['clients', ['--admin', '--json', '--plan', '--search', '--sort']],
    ['top', ['--admin', '--json', '--by']],
    ['backends', ['--admin', '--json']],
    ['deprecations', ['--admin', '--json']],
    ['config', ['--admin', '--json']],
    ['completion', []],
  ])('has help of its own for %s', async (command, options) => {
    const { code, stdout, stderr } = await typed([...command.split(' '), '--help'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain(`Usage: tollgate ${command} `)
    expect([...stdout.matchAll(/^ +(?:-h, )?(--[\w-]+)/gm)].map(([, name]) => name)).toEqual([
      ...options,
      '--help',
    ])
  })

  it.each(['check', 'reload', 'keys list'])(
    'tells in the help of %s where its token comes from',
    async (command) => {
      const { stdout } = await typed([...command.split(' '), '--help'])
      expect(stdout).toContain('the environment variable TOLLGATE_ADMIN_TOKEN.')
    },
  )

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
    [
      'start --config --db',
      "option '--config <file>' argument '--db' is invalid. It needs a value.",
    ],
    ['start --port 80', "unknown option '--port'"],
    ['start --confg a.yaml', "unknown option '--confg'\n(Did you mean --config?)"],
    [
      'start gateway.yaml',
      "too many arguments for 'start'. Expected 0 arguments but got 1: gateway.yaml.",
    ],
    ['start --config a.yaml --config b.yaml', "'b.yaml' is invalid. It is given twice; keep one."],
    ['demo --listen x', "unknown option '--listen'"],
    ['check', 'option --config <file> is missing'],
    ['diff', "missing required argument 'old'"],
    ['diff a.yaml', "missing required argument 'new'"],
    ['init gateway.yaml', "too many arguments for 'init'"],
    ['catalogue --db x.db', 'option --listen <host:port> is missing'],
    ['catalogue --listen 127.0.0.1:0', 'option --db <file> is missing'],
    ['catalogue --listen 3000 --db x.db', 'Write HOST:PORT such as 127.0.0.1:3000.'],
    [
      'check --config a.yaml --against localhost',
      "'localhost' is invalid. Write http://HOST:PORT.",
    ],
    ['reload --admin localhost:9090', "'localhost:9090' is invalid. Write http://HOST:PORT."],
    ['keys new --plan pro', 'option --client <id> is missing'],
    ['keys new --client acme', 'option --plan <plan> is missing'],
    ['keys new --client acme --plan pro --days 3', "unknown option '--days'"],
    ['bans lsit', "unknown command 'lsit'\n(Did you mean list?)"],
    ['bans add acme-1', 'option --for <duration> is missing'],
    ['bans add --for 1h', 'KEY_ID and --client: give one of them'],
    ['bans add acme-1 --for 401d', '--for is out of range; write a duration from 1s to 400d'],
    ['usage --day 3.11.', '--day is not a date; write it as 2026-11-03'],
    ['usage acme --day 2026-02-30', '--day is not a date; write it as 2026-11-03'],
    ['usage acme --day 2026-11-03 --to 2026-11-04', '--day stands alone'],
    ['usage --from 2026-11-01 --to 2026-11-03', 'told with --csv; or name a client'],
    ['usage reset acme --window hour', 'Allowed choices are minute, day, both.'],
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

  it.each([
    [['--client', 'a b', '--plan', 'pro'], '--client is not an id; '],
    [['--client', 'jwt:a', '--plan', 'pro'], '--client starts with "jwt:"'],
    [['--client', 'acme', '--plan', '1st'], '--plan is not a name; '],
    [['--client', 'acme', '--plan', 'pro', '--expires', 'soon'], '--expires is not a date; '],
    [['--client', 'acme', '--plan', 'pro', '--expires', '2020-01-01'], '--expires is in the past;'],
  ])('refuses keys new %j on stderr, and makes no key', async (args, fault) => {
    const { code, stdout, stderr } = await here('keys', 'new', ...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^tollgate: [^\n]+\n$/)
    expect(stderr).toContain(fault)
  })
})

describe.concurrent('a configuration that is refused', () => {
  const bad = temporaryFile('bad.yaml', 'unmatched: perhaps\nserver:\n  workers: many\nfoo: 1\n')

  it('keeps start and demo from starting: exit code 2, every problem in one log line', async () => {
    for (const command of ['start', 'demo']) {
      const { code, stdout, stderr } = await run(command, '--config', bad)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(linesOf(stderr)).toMatchObject([{ level: 'error', event: 'configRefused' }])
      const problems = linesOf(stderr)[0]?.['problems'] as string[]
      expect(problems).toHaveLength(3)
      expect(problems[0]).toContain(`${bad}:1:12 unmatched: `)
      expect(problems[1]).toContain(`${bad}:3:12 server.workers: `)
      expect(problems[2]).toContain(`${bad}:4:1 foo: `)
      for (const problem of problems) expect(problem).toContain('; ')
    }
  })

  it('makes check fail: exit code 2, every problem on stdout', async () => {
    const { code, stdout, stderr } = await here('check', '--config', bad)
    expect({ code, stderr }).toEqual({ code: 2, stderr: '' })
    expect(stdout.trim().split('\n')).toHaveLength(3)
  })

  it('is also a file that cannot be read', async () => {
    const missing = `${temporaryFolder()}/none.yaml`
    const problem = `${missing}:1:1 (file): cannot be read (ENOENT); check its name and permissions`
    const started = await run('start', '--config', missing)
    expect(started.code).toBe(2)
    expect(linesOf(started.stderr)).toMatchObject([{ problems: [problem] }])
    const checked = await here('check', '--config', missing)
    expect(checked).toEqual({ code: 2, stdout: `${problem}\n`, stderr: '' })
    const folder = temporaryFolder()
    const { code, stderr } = await run('start', '--config', folder)
    expect(code).toBe(2)
    expect(stderr).toContain('cannot be read (EISDIR)')
  })

  it('is also one that opens the public demo keys to the network', async () => {
    const open = readFileSync(example, 'utf8').replace('127.0.0.1:8080', '0.0.0.0:0')
    const file = temporaryFile('open.yaml', open)
    for (const command of ['start', 'demo']) {
      const { code, stdout, stderr } = await run(command, '--config', file)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toContain('server.listen: opens public demo keys')
      expect(stderr).toContain('remove them from clients, or listen on 127.0.0.1')
    }
    expect((await here('check', '--config', file)).code).toBe(2)
  })
})

describe.concurrent('tollgate check', () => {
  it('says ok to the example file: exit code 0, one line', async () => {
    const { code, stdout, stderr } = await here('check', '--config', example)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(
      /^\S+gateway\.yaml: ok, revision [0-9a-f]{12}, 5 clients, 4 routes, store: embedded \(data\/tollgate\.db\)\n$/,
    )
  })

  it('starts nothing: a file whose ports are in use is ok', async () => {
    const port = await takenPort()
    const file = configFile(nowhere, { server: `server: { listen: "127.0.0.1:${port}" }` })
    expect((await here('check', '--config', file)).code).toBe(0)
  })
})

describe.concurrent('tollgate keys new', () => {
  it('prints a key that opens a gateway once its YAML is pasted in', async () => {
    const made = await here('keys', 'new', '--client', 'acme', '--plan', 'pro')
    expect({ code: made.code, stderr: made.stderr }).toEqual({ code: 0, stderr: '' })
    const key = made.stdout.split('\n').find((line) => line.startsWith('tg_')) ?? ''
    const yaml = made.stdout.slice(made.stdout.indexOf('clients:'))
    expect(yaml).not.toContain(key)
    expect(yaml).toContain(sha256(key))
    const backend = await rawBackend()
    const file = configFile(backend.url, { clients: yaml })
    const gateway = await gatewayProcess(file)
    const good = await gateway.call(key)
    expect(good.status).toBe(200)
    expect(good.headers.get('x-ratelimit-limit')).toBe('300')
    expect(backend.requests[0]?.header('x-client-id')).toBe('acme')
    expect((await gateway.call(`${key}x`)).status).toBe(401)
    expect(gateway.stdout() + gateway.stderr()).not.toContain(key)
  })
})

describe.concurrent('tollgate keys new --write', () => {
  it('puts the key alone on stdout; revoke says what it did on stderr', async () => {
    const file = configFile(nowhere)
    const text = readFileSync(file, 'utf8')
    const made = await here('keys', 'new', '--client', 'pro-client', '--json', '--write', file)
    expect(made.code).toBe(0)
    const { key, keyId } = JSON.parse(made.stdout) as { key: string; keyId: string }
    expect(made.stderr).not.toContain(key)
    expect(readFileSync(file, 'utf8')).toContain(sha256(key))
    const revoked = await here('keys', 'revoke', keyId, '--write', file)
    expect(revoked).toEqual({
      code: 0,
      stdout: '',
      stderr: `# ${keyId} is no longer in ${file}.\n`,
    })
    expect(readFileSync(file, 'utf8')).toBe(text)
    expect((await here('keys', 'revoke', keyId, '--write', file)).code).toBe(2)
  })
})

describe.concurrent('an address that cannot be had', () => {
  it('of the public listener: exit code 1, and the setting to change', async () => {
    const port = await takenPort()
    const file = configFile(nowhere, { server: `server: { listen: "127.0.0.1:${port}" }` })
    const { code, stderr } = await run('start', '--config', file)
    expect(code).toBe(1)
    expect(linesOf(stderr).at(-1)).toMatchObject({
      level: 'fatal',
      event: 'startFailed',
      message: `the public listener cannot listen on 127.0.0.1:${port}: the address is in use; stop what uses it, or change server.listen in the config (EADDRINUSE)`,
    })
  })

  it('is told by a log that is to be silent, too', async () => {
    const port = await takenPort()
    const server = `server: { listen: "127.0.0.1:${port}" }\nlog: { level: silent }`
    const { code, stderr } = await run('start', '--config', configFile(nowhere, { server }))
    expect(code).toBe(1)
    expect(linesOf(stderr)).toMatchObject([{ event: 'startFailed' }])
  })

  it('of the admin listener: likewise, and the process ends though it keeps trying to reach Redis', async () => {
    const port = await takenPort()
    const file = configFile(nowhere, {
      admin: `admin: { listen: "127.0.0.1:${port}" }`,
      store: 'store: { redis: "redis://127.0.0.1:1" }',
    })
    const { code, stderr } = await run('start', '--config', file)
    expect(code).toBe(1)
    expect(stderr).toContain(`the admin listener cannot listen on 127.0.0.1:${port}: `)
    expect(stderr).toContain('change admin.listen in the config (EADDRINUSE)')
  })

  it('of the catalogue service: likewise, in the demo and on its own', async () => {
    const port = await takenPort()
    const file = configFile(`http://127.0.0.1:${port}`)
    const demo = await run('demo', '--config', file)
    expect(demo.code).toBe(1)
    expect(demo.stderr).toContain(`the catalogue service cannot listen on 127.0.0.1:${port}: `)
    expect(demo.stderr).toContain('change upstream.urls in the config (EADDRINUSE)')
    const alone = await run('catalogue', '--listen', `127.0.0.1:${port}`, '--db', 'pets.db')
    expect(alone.code).toBe(1)
    expect(alone.stderr).toContain('or change --listen (EADDRINUSE)')
  })

  it('of the public listener in the demo: the catalogue is closed again and the process ends', async () => {
    const [port, upstream] = [await takenPort(), await freePort()]
    const file = configFile(`http://127.0.0.1:${upstream}`, {
      server: `server: { listen: "127.0.0.1:${port}" }`,
    })
    const { code, stderr } = await run('demo', '--config', file)
    expect(code).toBe(1)
    expect(stderr).toContain('change server.listen in the config')
  })
})

describe.concurrent('tollgate start', () => {
  it('prints one line per listener with its real address, and nothing else on stdout', async () => {
    const gateway = await gatewayProcess(configFile(nowhere))
    expect(gateway.stdout()).toMatch(
      /^tollgate listening on http:\/\/127\.0\.0\.1:\d+\/v1\nadmin listening on http:\/\/127\.0\.0\.1:\d+\n$/,
    )
    expect(gateway.stdout()).not.toContain(':0')
    expect(linesOf(gateway.stderr()).map((line) => line['event'])).not.toContain('warning')
    const [taken] = gateway.logged('configTaken')
    expect(taken?.['store']).toBe('embedded (in memory only)')
    const [warned] = gateway.logged('configWarning')
    expect(warned?.['problem']).toMatch(/clients\[0\]\.keys\[1\]\.expires: warning: /)
  })

  it('starts although no backend can be reached, and says so in its answers', async () => {
    const gateway = await gatewayProcess(configFile(nowhere))
    const answer = await gateway.call(keys.pro)
    expect([answer.status, answer.code]).toEqual([502, 'bad_gateway'])
    const ready = await fetch(`${gateway.adminOrigin}/readyz`)
    expect(ready.status).toBe(503)
    expect(await ready.text()).toContain('ECONNREFUSED')
    expect((await fetch(`${gateway.adminOrigin}/healthz`)).status).toBe(200)
  })

  it('takes values from the environment', async () => {
    const text = configText({ upstreams: [nowhere] }).replace(
      'listen: "127.0.0.1:0"',
      'listen: "127.0.0.1:${PUBLIC_PORT:-x}"',
    )
    const file = temporaryFile('gateway.yaml', text)
    const port = await freePort()
    const gateway = await gatewayProcess(file, { env: { PUBLIC_PORT: String(port) } })
    expect(new URL(gateway.origin).port).toBe(String(port))
    expect((await run('start', '--config', file)).code).toBe(2)
  })
})

describe.concurrent('tollgate init', () => {
  it('writes a configuration that starts, and shows the key that it lets in', async () => {
    const backend = await rawBackend()
    const file = `${temporaryFolder()}/new.yaml`
    const { code, stdout, stderr } = await here('init', '--write', file, '--upstream', backend.url)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const key = /^tg_\S+$/m.exec(stdout)?.[0] ?? ''
    expect(stdout).toContain(`tollgate start --config ${file}\n`)
    expect(stdout).toContain(
      `curl -i -H 'Authorization: Bearer ${key}' http://127.0.0.1:8080/v1/\n`,
    )
    const written = readFileSync(file, 'utf8')
    expect(written).toContain(sha256(key))
    expect(written).not.toContain(key)
    const anyPort =
      'server: { listen: "127.0.0.1:0" }\nadmin: { listen: "127.0.0.1:0" }\nstore: { file: "" }\n'
    const gateway = await gatewayProcess(
      temporaryFile('any-port.yaml', anyPort + written.replace(/^server:\n.*\n/m, '')),
    )
    const answer = await gateway.call(key)
    expect([answer.status, answer.headers.get('x-ratelimit-limit')]).toEqual([200, '60'])
    expect(backend.requests).toHaveLength(1)
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
    for (const [args, code, fault] of [
      [['--write', `${folder}/none/a.yaml`], 1, 'cannot be written (ENOENT); check its folder'],
      [
        ['--write', `${folder}/a.yaml`, '--upstream', 'pets'],
        2,
        '--upstream "pets" is not an origin; ',
      ],
      [['--write', `${folder}/a.yaml`, '--client', 'a b'], 2, '--client is not an id; '],
    ] as const) {
      const refused = await here('init', ...args)
      expect({ code: refused.code, stdout: refused.stdout }).toEqual({ code, stdout: '' })
      expect(refused.stderr).toContain(fault)
    }
    expect(readdirSync(folder)).toEqual([])
  })
})

describe.concurrent('tollgate diff', () => {
  const file = (...replaced: (readonly [string, string])[]): string =>
    temporaryFile(
      'gateway.yaml',
      replaced.reduce(
        (text, [from, to]) => text.replace(from, to),
        configText({ upstreams: [nowhere] }),
      ),
    )

  it('tells in a line each what changes, and for whom', async () => {
    const next = file(['perMinute: 60', 'perMinute: 5'], ['server:', 'unmatched: reject\nserver:'])
    const { code, stdout, stderr } = await here('diff', file(), next)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^[0-9a-f]{12} to [0-9a-f]{12}\n/)
    expect(stdout).toMatch(/^~ \d settings?: .*unmatched/m)
    expect(stdout).not.toContain('key')
    const json = await here('diff', '--json', file(), next)
    expect(JSON.parse(json.stdout)).toMatchObject({ clients: { added: [] }, needsRestart: [] })
  })

  it('says that nothing changes, and refuses a file that would not start', async () => {
    const same = await here('diff', file(), file(['server:', '# a comment\nserver:']))
    expect(same).toMatchObject({ code: 0, stderr: '' })
    expect(same.stdout).toMatch(/^[0-9a-f]{12} to [0-9a-f]{12}, nothing changes\n$/)
    const bad = file(['server:', 'unmatched: maybe\nserver:'])
    const refused = await here('diff', file(), bad)
    expect(refused).toMatchObject({ code: 2, stderr: '' })
    expect(refused.stdout).toContain(`${bad}:1:12 unmatched: "maybe" is `)
  })
})

describe.concurrent('tollgate catalogue', () => {
  it('serves the operations on its own, and says what is wrong with its file', async () => {
    const folder = temporaryFolder()
    const catalogue = tollgate(['catalogue', '--listen', '127.0.0.1:0', '--db', 'pets.db'], {
      cwd: folder,
    })
    const url = await catalogue.listening('catalogue')
    expect(await (await fetch(`${url}/pets`)).json()).toEqual([])
    catalogue.signal('SIGTERM')
    expect((await catalogue.finished).code).toBe(0)
    const absent = await run('catalogue', '--listen', '127.0.0.1:0', '--db', '/nowhere/pets.db')
    expect(absent.code).toBe(1)
    expect(absent.stderr).toContain('create it, or name a file in an existing folder')
  })
})

describe.concurrent('a file for TLS to backends that is of no use', () => {
  it.each([1, 2])('ends the start of %i workers, with key, file and remedy', async (workers) => {
    const server = `server: { listen: "127.0.0.1:0", workers: ${workers} }`
    const upstream = `upstream: { urls: ["https://127.0.0.1:1"], tls: { ca: ${import.meta.filename} } }`
    const { code, stderr } = await run(
      'start',
      '--config',
      configFile(nowhere, { server, upstream }),
    )
    expect(code).toBe(1)
    expect(linesOf(stderr).at(-1)).toMatchObject({
      event: 'startFailed',
      message: `upstream.tls.ca: ${import.meta.filename} cannot be used (not PEM); give the PEM certificates of the authorities to trust`,
    })
  })
})
