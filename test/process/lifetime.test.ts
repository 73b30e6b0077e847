/** From the first moment of a process to its last: signals early in a start, npm and a terminal as parents, and no debugger. */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { keys } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { freePort, isTaken } from '../support/redis-server.ts'
import { compileCache, sources } from '../support/sources.ts'
import { atEnd, call, configFile, decided, eventually, gatewayProcess } from './gateways.ts'
import { linesOf, startRawBackend, startTollgate } from './gateways.ts'

const root = join(import.meta.dirname, '../..')

const SIGUSR2 = 12
/** Whether the program's own handlers stand: Node.js has none for SIGUSR2. False of a process that is gone, too. */
function hearsSignals(pid: number): boolean {
  try {
    const mask = /^SigCgt:\s*([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return (BigInt(`0x${mask}`) & (1n << BigInt(SIGUSR2 - 1))) !== 0n
  } catch {
    return false
  }
}

/** A configuration for the demo, and its three ports. */
async function demoPorts(): Promise<{ args: string[]; ports: number[] }> {
  const ports = await Promise.all([freePort(), freePort(), freePort()])
  const file = configFile(`http://127.0.0.1:${ports[2]}`, {
    server: `server: { listen: "127.0.0.1:${ports[0]}" }`,
    admin: `admin: { listen: "127.0.0.1:${ports[1]}" }`,
  })
  return { args: ['--config', file, '--db', join(temporaryFolder(), 'pets.db')], ports }
}

const areAll = (taken: boolean, ports: number[]) => async (): Promise<boolean> =>
  (await Promise.all(ports.map(isTaken))).every((is) => is === taken)
const allTaken = (ports: number[]) => areAll(true, ports)
const allFree = (ports: number[]) => areAll(false, ports)

/** A program in a session of its own, as from another shell; resolves with the text of both outputs at its end. */
function start(command: string, args: readonly string[]) {
  const child = spawn(command, args, {
    cwd: root,
    detached: true,
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: temporaryFolder(),
      TERM: 'xterm-256color',
      NODE_COMPILE_CACHE: compileCache,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  atEnd(() => child.kill('SIGKILL'))
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  return { child, text: () => text, ended }
}

/** tollgate on a terminal of its own. */
const onTerminal = (...args: string[]) =>
  start('script', ['-qfec', [process.execPath, sources, ...args].join(' '), '/dev/null'])

describe.concurrent('SIGTERM early in a start', () => {
  const file = configFile('http://127.0.0.1:1')

  // Before that, while Node.js itself starts, a signal means what the system makes of it.
  it.each([
    ['start', 0],
    ['start', 50],
    ['start', 200],
    ['demo', 0],
    ['catalogue', 0],
  ] as const)(
    'ends %s with 0, %i ms after the first line of the program has run',
    async (command, ms) => {
      const { args } = await demoPorts()
      const own = {
        start: ['--config', file],
        demo: args,
        catalogue: ['--listen', '127.0.0.1:0', '--db', 'pets.db'],
      }
      const started = startTollgate([command, ...own[command]])
      while (!hearsSignals(started.pid) && started.child.exitCode === null) await sleep(1)
      await sleep(ms)
      started.signal('SIGTERM')
      expect(await started.finished).toMatchObject({ code: 0 })
    },
  )
})

describe('a supervisor and its workers', () => {
  it('open no debugger on SIGUSR1, and print and log the address that a name led to', async () => {
    const backend = await startRawBackend()
    // A debugger that opened would take any port, and say so.
    const env = { NODE_OPTIONS: '--inspect-port=0' }
    const server = 'server: { listen: "localhost:0", workers: 2 }'
    const gateway = await gatewayProcess(configFile(backend.url, { server }), { env })
    expect(gateway.origin).toMatch(/^http:\/\/(?:127\.0\.0\.1|\[::1\]):\d+$/)
    expect(gateway.logged('listening').map(({ host }) => host)).not.toContain('localhost')
    const pids = [gateway.pid, ...gateway.logged('workerStarted').map(({ pid }) => Number(pid))]
    expect(pids).toHaveLength(3)
    for (const pid of pids) process.kill(pid, 'SIGUSR1')
    await eventually('the word', () => gateway.logged('signalIgnored').length === 1)
    await sleep(500)
    expect((await decided(() => gateway.call(keys.pro))).status).toBe(200)
    expect(gateway.stderr()).not.toMatch(/debugger (?!is opened)/i)
    gateway.signal('SIGTERM')
    linesOf((await gateway.finished).stderr)
  })
})

describe.concurrent('npm start', () => {
  // The one is passed on, of the other npm dies without a word.
  it.each(['SIGINT', 'SIGKILL'] as const)(
    'leaves nothing behind when npm gets %s',
    async (signal) => {
      const { args, ports } = await demoPorts()
      const npm = start('npm', ['start', '--', ...args])
      await eventually('three listeners', allTaken(ports))
      npm.child.kill(signal)
      await npm.ended
      await eventually('free ports', allFree(ports))
      await eventually('the last line', () => npm.text().includes('"event":"drained"'))
    },
  )
})

describe('npm start in the background', () => {
  it('outlives the shell that began it, and ends with npm', async () => {
    const { args, ports } = await demoPorts()
    const line = `npm start -- ${args.join(' ')} >/dev/null 2>&1 & echo $!; read word`
    const shell = start('sh', ['-c', line])
    await eventually('three listeners', allTaken(ports))
    const npm = Number(shell.text())
    // The shell goes, and npm gets another parent.
    shell.child.stdin.end()
    await shell.ended
    await sleep(1_500)
    expect(await allTaken(ports)()).toBe(true)
    process.kill(npm, 'SIGTERM')
    await eventually('free ports', allFree(ports))
  })
})

describe.concurrent('a terminal', () => {
  it('ends the demo when it is closed, and leaves no port behind', async () => {
    const { args, ports } = await demoPorts()
    const terminal = onTerminal('demo', ...args)
    await eventually('three listeners', allTaken(ports))
    terminal.child.kill('SIGKILL')
    await eventually('free ports', allFree(ports))
  })

  it('shows the log as readable lines with colour, those of workers too', async () => {
    const backend = await startRawBackend()
    const workers = { server: 'server: { listen: "127.0.0.1:0", workers: 2 }' }
    const terminal = onTerminal('start', '--config', configFile(backend.url, workers))
    const address = /^tollgate listening on (\S+)\r$/m
    await eventually('the listener', () => address.test(terminal.text()))
    const url = `${address.exec(terminal.text())?.[1]}/pets`
    expect((await decided(() => call(url, keys.pro))).status).toBe(200)
    await eventually('the access line', () => terminal.text().includes('/pets 200 '))
    // eslint-disable-next-line no-control-regex
    const plain = terminal.text().replace(/\u001b\[\d+m/g, '')
    expect(terminal.text()).not.toBe(plain)
    expect(plain).toMatch(/^\[[\d:.]+\] INFO: listening pid=\d+ listener=public host=127.0.0.1/m)
    expect(plain).toMatch(
      /^\[[\d:.]+\] INFO: GET \S+\/pets 200 [\d.]+ ms pro-client \d+\/\d+ worker=[12] id=\S+ /m,
    )
    expect(plain).not.toContain('{')
    // The gateway itself: it outlives its terminal.
    process.kill(Number(/INFO: listening pid=(\d+)/.exec(plain)?.[1]), 'SIGTERM')
    expect(await terminal.ended).toBe(0)
  })

  it('shows why a configuration is refused, a problem a line', async () => {
    const bad = temporaryFile('bad.yaml', 'unmatched: perhaps\nfoo: 1\n')
    const terminal = onTerminal('start', '--config', bad)
    expect(await terminal.ended).toBe(2)
    const told = terminal.text()
    expect(told).toContain('configRefused')
    expect(told).toContain(`\r\n    ${bad}:1:12 unmatched: `)
    expect(told).not.toContain('{')
  })
})

it('a start with room for hardly any open file is refused, with what to raise', async () => {
  const server = 'server: { listen: "127.0.0.1:0", workers: 2 }'
  const file = configFile('http://127.0.0.1:1', { server })
  const started = startTollgate(['start', '--config', file], { openFiles: 100 })
  const { code, stderr, stdout } = await started.finished
  expect([code, stdout]).toEqual([1, ''])
  expect(linesOf(stderr)).toMatchObject([
    {
      event: 'startFailed',
      message: expect.stringMatching(
        /may open 100 files, too few.*raise the limit \(ulimit -n, LimitNOFILE\) to 144/,
      ) as unknown,
    },
  ])
})
