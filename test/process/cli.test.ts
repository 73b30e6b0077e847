import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { afterAll, describe, expect, it } from 'vitest'
import { configText, keys, sha256 } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { freePort } from '../support/redis-server.ts'
import { configFile, endAll, gatewayProcess, rawBackend, run, tollgate } from './gateways.ts'

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

describe.concurrent('the command line', () => {
  it('tells its version, as package.json has it', async () => {
    const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string }
    expect(await run('--version')).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  it.each([['--help'], ['help'], ['start --help'], ['keys new --help']])(
    'answers %s with every command and the exit codes',
    async (line) => {
      const { code, stdout, stderr } = await run(...line.split(' '))
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      for (const text of ['start', 'demo', 'catalogue', 'check', 'keys new', 'Exit codes'])
        expect(stdout).toContain(text)
    },
  )

  it.each([
    ['', 'a command is missing'],
    ['serve', 'unknown command "serve"'],
    ['start', '--config FILE is missing'],
    ['start --config', '--config has no value; this command takes --config VALUE'],
    ['start --port 80', 'unknown option --port; this command takes --config VALUE'],
    ['start gateway.yaml', '"gateway.yaml" is not an option; this command takes --config VALUE'],
    ['start --config a.yaml --config b.yaml', '--config is given twice; keep one'],
    ['demo --listen x', 'unknown option --listen; this command takes --config VALUE, --db VALUE'],
    ['check', '--config is missing'],
    ['catalogue --db x.db', '--listen HOST:PORT is missing'],
    ['catalogue --listen 127.0.0.1:0', '--db FILE is missing'],
    ['catalogue --listen 3000 --db x.db', '--listen takes HOST:PORT such as 127.0.0.1:3000'],
    ['keys', 'keys takes one verb, "new"'],
    ['keys old', 'keys takes one verb, "new", not "old"'],
    ['keys new --plan pro', '--client is missing'],
    ['keys new --client acme', '--plan is missing'],
    ['keys new --client acme --plan pro --days 3', 'unknown option --days'],
  ])('refuses "tollgate %s" with exit code 2, the fault and the usage', async (line, fault) => {
    const { code, stdout, stderr } = await run(...line.split(' ').filter((word) => word !== ''))
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr.split('\n', 1)[0]).toContain(`tollgate: ${fault}`)
    expect(stderr).toContain('Usage: tollgate COMMAND')
  })

  it.each([
    [['--client', 'a b', '--plan', 'pro'], '--client is not an id; '],
    [['--client', 'acme', '--plan', '1st'], '--plan is not a name; '],
    [['--client', 'acme', '--plan', 'pro', '--expires', 'soon'], '--expires is not a date; '],
    [['--client', 'acme', '--plan', 'pro', '--expires', '2020-01-01'], '--expires is in the past;'],
  ])('refuses keys new %j on stderr, and makes no key', async (args, fault) => {
    const { code, stdout, stderr } = await run('keys', 'new', ...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^tollgate: [^\n]+\n$/)
    expect(stderr).toContain(fault)
  })
})

describe.concurrent('a configuration that is refused', () => {
  const bad = temporaryFile('bad.yaml', 'unmatched: perhaps\nserver:\n  workers: many\nfoo: 1\n')

  it('keeps start and demo from starting: exit code 2, every problem on stderr', async () => {
    for (const command of ['start', 'demo']) {
      const { code, stdout, stderr } = await run(command, '--config', bad)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      const lines = stderr.trim().split('\n')
      expect(lines).toHaveLength(3)
      expect(lines[0]).toMatch(`${bad}:1:12 unmatched: `)
      expect(lines[1]).toMatch(`${bad}:3:12 server.workers: `)
      expect(lines[2]).toMatch(`${bad}:4:1 foo: `)
      for (const line of lines) expect(line).toContain('; ')
    }
  })

  it('makes check fail: exit code 2, every problem on stdout', async () => {
    const { code, stdout, stderr } = await run('check', '--config', bad)
    expect({ code, stderr }).toEqual({ code: 2, stderr: '' })
    expect(stdout.trim().split('\n')).toHaveLength(3)
  })

  it('is also a file that cannot be read', async () => {
    const missing = `${temporaryFolder()}/none.yaml`
    const told = `${missing}:1:1 (file): cannot be read (ENOENT); check its name and permissions\n`
    expect(await run('start', '--config', missing)).toEqual({ code: 2, stdout: '', stderr: told })
    expect(await run('check', '--config', missing)).toEqual({ code: 2, stdout: told, stderr: '' })
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
    expect((await run('check', '--config', file)).code).toBe(2)
  })
})

describe.concurrent('tollgate check', () => {
  it('says ok to the example file: exit code 0, one line', async () => {
    const { code, stdout, stderr } = await run('check', '--config', example)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(
      /^\S+gateway\.yaml: ok, revision [0-9a-f]{12}, 5 clients, 4 routes, store: embedded \(data\/tollgate\.db\)\n$/,
    )
  })

  it('starts nothing: a file whose ports are in use is ok', async () => {
    const port = await takenPort()
    const file = configFile(nowhere, { server: `server: { listen: "127.0.0.1:${port}" }` })
    expect((await run('check', '--config', file)).code).toBe(0)
  })
})

describe.concurrent('tollgate keys new', () => {
  it('prints a key that opens a gateway once its YAML is pasted in', async () => {
    const made = await run('keys', 'new', '--client', 'acme', '--plan', 'pro')
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

describe.concurrent('an address that cannot be had', () => {
  it('of the public listener: exit code 1, and the setting to change', async () => {
    const port = await takenPort()
    const file = configFile(nowhere, { server: `server: { listen: "127.0.0.1:${port}" }` })
    const { code, stderr } = await run('start', '--config', file)
    expect(code).toBe(1)
    expect(stderr).toContain(
      `tollgate: the public listener cannot listen on 127.0.0.1:${port}: the address is in use; stop what uses it, or change server.listen in the config (EADDRINUSE)\n`,
    )
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
    expect(gateway.stderr()).not.toMatch(/(?<!config)Warning/)
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
