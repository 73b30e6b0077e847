/** A master, a replica and the sentinels that watch them: real processes on free ports. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { askRedis, isMaster } from './redis-shared.ts'
import { freePort, startRedisServer, waitForPort, type RedisServer } from './redis-server.ts'

export interface Sentinel {
  readonly port: number
  freeze(): void
  thaw(): void
  kill(): Promise<void>
  cli(...args: string[]): string
}

export interface SentinelGroup {
  /** What the sentinels call the master. */
  readonly name: string
  /** Master and replica at the start. */
  readonly master: RedisServer
  readonly replica: RedisServer
  readonly sentinels: readonly Sentinel[]
  /** HOST:PORT of the sentinels. */
  readonly addresses: readonly string[]
  /** Waits until all living sentinels name this server as the master, and it is one. */
  untilMaster(server: RedisServer): Promise<void>
  stop(): Promise<void>
}

const name = 'quota'
const SENTINELS = 3

/** downAfterMs: a master that is silent for so long is failed over. redis: further arguments of both servers. */
export async function startSentinelGroup({
  downAfterMs = 600,
  redis = [],
}: { downAfterMs?: number; redis?: readonly string[] } = {}): Promise<SentinelGroup> {
  const start = () => startRedisServer('--repl-diskless-sync-delay', '0', ...redis)
  const [master, replica] = await Promise.all([start(), start()])
  replica.cli('REPLICAOF', '127.0.0.1', String(master.port))
  await untilTrue('the replica is in step', async () =>
    (await askRedis(replica.port, 'INFO replication')).includes('master_link_status:up'),
  )
  const started = await Promise.all(
    Array.from({ length: SENTINELS }, () => startSentinel(master.port, downAfterMs)),
  )
  const living = (): Sentinel[] => started.filter(({ isDown }) => !isDown())
  await untilTrue('the sentinels know each other and the replica', async () => {
    const question = `SENTINEL MASTER ${name}`
    const answers = await Promise.all(started.map(({ port }) => askRedis(port, question)))
    return answers.every((answer) => {
      const facts = answer.split('\r\n')
      // Each value has its length before it.
      const fact = (key: string): string | undefined => facts[facts.indexOf(key) + 2]
      return fact('num-other-sentinels') === String(SENTINELS - 1) && fact('num-slaves') === '1'
    })
  })
  return {
    name,
    master,
    replica,
    sentinels: started,
    addresses: started.map(({ port }) => `127.0.0.1:${port}`),
    untilMaster: (server) =>
      untilTrue('the failover', async () => {
        const question = `SENTINEL GET-MASTER-ADDR-BY-NAME ${name}`
        const answers = await Promise.all(living().map(({ port }) => askRedis(port, question)))
        const areAgreed = answers.every((answer) => answer.includes(`\r\n${server.port}\r\n`))
        return areAgreed && (await isMaster(server.port))
      }),
    stop: async () => {
      for (const each of [master, replica, ...started]) each.thaw()
      await Promise.all([master.stop(), replica.stop(), ...started.map((each) => each.stop())])
    },
  }
}

async function startSentinel(masterPort: number, downAfterMs: number) {
  const directory = mkdtempSync(join(tmpdir(), 'tollgate-sentinel-'))
  const file = join(directory, 'sentinel.conf')
  const port = await freePort()
  writeFileSync(
    file,
    [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir ${directory}`,
      `sentinel monitor ${name} 127.0.0.1 ${masterPort} 2`,
      `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
      `sentinel failover-timeout ${name} 3000`,
      '',
    ].join('\n'),
  )
  const child = spawn('redis-server', [file, '--sentinel'], { stdio: 'ignore' })
  await waitForPort(port, child)
  const kill = (): Promise<void> => end(child)
  return {
    port,
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
    kill,
    isDown: () => child.exitCode !== null || child.signalCode !== null,
    cli: (...args: string[]) =>
      execFileSync('redis-cli', ['-p', String(port), ...args], { encoding: 'utf8' }).trim(),
    stop: async () => {
      await kill()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}

async function untilTrue(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < 400; attempt++) {
    if (await condition()) return
    await sleep(50)
  }
  throw new Error(`waited 20 s in vain until ${what}`)
}
