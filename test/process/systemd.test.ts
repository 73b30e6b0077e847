/** What systemd is told, on a real datagram socket; and the unit in deploy/, as systemd itself reads it. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { hrtime } from 'node:process'
import { describe, expect, it } from 'vitest'
import { atEnd } from '../support/ending.ts'
import { productionEnv } from '../config/examples.ts'
import { loadConfig } from '../../src/config/clients/load.ts'
import { roomForConnections } from '../../src/core/http/connection-room.ts'
import { typed } from '../support/command-line.ts'
import { ensurePackage } from '../support/debian-package.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { configFile, eventually, gatewayProcess, run } from './gateways.ts'

/** Prints what comes on a datagram socket, one line each, as the service manager gets it. */
const LISTENER = `
import socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(sys.argv[1])
print('bound', flush=True)
while True: print(manager.recv(4096).decode().replace('\\n', ' '), flush=True)
`

async function startManager() {
  ensurePackage('systemd', { probe: ['systemd-notify', '--version'] })
  ensurePackage('python3', { probe: ['python3', '--version'] })
  const socket = join(temporaryFolder(), 'notify')
  const child = spawn('python3', ['-c', LISTENER, socket], { stdio: ['ignore', 'pipe', 'inherit'] })
  atEnd(() => child.kill('SIGKILL') && once(child, 'exit'))
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (more: string) => (text += more))
  /** systemd-notify asks that all before it was taken; of no interest here. */
  const told = () => text.split('\n').filter((line) => !/^(?:bound|BARRIER=1)?$/.test(line))
  await eventually('the socket', () => text.startsWith('bound\n'))
  return { socket, told, states: () => told().filter((line) => line !== 'WATCHDOG=1') }
}

describe('systemd', () => {
  it('is told when the gateway serves, that it lives, when it reads its config again, and when it stops', async () => {
    const { socket, told, states } = await startManager()
    const env = { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '400000' }
    const gateway = await gatewayProcess(configFile('http://127.0.0.1:1'), { env })
    await eventually('ready', () => states().length === 1)
    await eventually('signs of life', () => told().length > 3)
    gateway.signal('SIGHUP')
    await eventually('ready again', () => states().length === 3)
    gateway.signal('SIGTERM')
    expect((await gateway.finished).code).toBe(0)
    await eventually('the end', () => states().length === 4)
    expect(states()).toEqual([
      'READY=1 STATUS=Serving',
      expect.stringMatching(/^RELOADING=1 MONOTONIC_USEC=\d+$/),
      'READY=1 STATUS=Serving',
      'STOPPING=1 STATUS=Finishing what is under way',
    ])
    const reloadingAtMs = Number(states()[1]?.split('=').at(-1)) / 1_000
    expect(Math.abs(reloadingAtMs - Number(hrtime.bigint()) / 1e6)).toBeLessThan(60_000)
    expect(gateway.logged('warning')).toEqual([])
  })

  it('that cannot be told is named in the log once, and the gateway serves on', async () => {
    const env = { NOTIFY_SOCKET: '/nowhere', PATH: '/nowhere', WATCHDOG_USEC: '100000' }
    const gateway = await gatewayProcess(configFile('http://127.0.0.1:1'), { env })
    await eventually('the warning', () => gateway.logged('warning').length > 0)
    expect((await gateway.call(undefined)).status).toBe(401)
    gateway.signal('SIGTERM')
    expect((await gateway.finished).code).toBe(0)
    const error =
      'Error: systemd cannot be told how this service fares: systemd-notify has ended with 127'
    expect(gateway.logged('warning')).toMatchObject([{ error }])
  })
})

const production = await loadConfig(
  join(import.meta.dirname, '../../config/production.yaml'),
  productionEnv,
)

describe('deploy/systemd/tollgate.service', () => {
  const unit = readFileSync(
    join(import.meta.dirname, '../../deploy/systemd/tollgate.service'),
    'utf8',
  )
  const value = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? ''
  const seconds = (name: string): number => Number(/^(\d+)s$/.exec(value(name))?.[1])

  it('is taken by systemd, which finds little that the service could do to others', () => {
    ensurePackage('systemd', { probe: ['systemd-analyze', '--version'] })
    const file = temporaryFile(
      'tollgate.service',
      unit.replaceAll('/usr/bin/node', process.execPath),
    )
    const analyze = (...args: string[]): string =>
      execFileSync('systemd-analyze', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
    expect(analyze('verify', file)).toBe('')
    // Tenths of its scale from 0 to 10. Above it this fails.
    analyze('security', '--offline=true', '--threshold=20', file)
  })

  it('runs a command there is, and lets it be told of by its helper', async () => {
    const tollgate = '/usr/bin/node /opt/tollgate/dist/main.js'
    const config = '--config /etc/tollgate/gateway.yaml'
    expect(value('ExecStart')).toBe(`${tollgate} start ${config}`)
    const reloads = Array.from(unit.matchAll(/^ExecReload=(.*)$/gm), ([, command]) => command)
    expect(reloads).toEqual([`${tollgate} check ${config}`, '/bin/kill -HUP $MAINPID'])
    expect([value('Type'), value('NotifyAccess')]).toEqual(['notify', 'all'])
    // What a refused config ends with.
    const bad = temporaryFile('gateway.yaml', 'server: 1')
    const refused = Number(value('RestartPreventExitStatus'))
    expect((await run('start', '--config', bad)).code).toBe(refused)
    expect((await typed(['check', '--config', bad])).code).toBe(refused)
  })

  it('leaves the gateway of config/production.yaml the time to drain and the files that it needs', () => {
    const { drainDelayMs, drainMs } = production.server.timeouts
    expect(seconds('TimeoutStopSec') * 1_000).toBeGreaterThan(drainDelayMs + drainMs + 5_000)
    expect(roomForConnections(production, Number(value('LimitNOFILE'))).openFiles).toBeUndefined()
  })
})
